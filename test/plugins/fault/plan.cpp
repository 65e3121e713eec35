// SPDX-License-Identifier: BSD-3-Clause
#include "plugins/fault/plan.hpp"

#include <charconv>

#include <fmt/format.h>

namespace na::fault {
namespace {

template <typename Number>
bool parse_number(std::string_view text, Number& out) {
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    return error == std::errc{} && stop == text.data() + text.size();
}

Error malformed(std::string_view item) {
    return Error{Status::invalid_arg, fmt::format("\"{}\" is no part of a fault plan: again, fail, "
                                                  "drop, delay, spoil, deaf and late_cancel take "
                                                  "a "
                                                  "probability, lose_peer_at and seed a number",
                                                  item)};
}

bool parse_item(std::string_view key, std::string_view value, Plan& plan) {
    struct {
        std::string_view name;
        double* field;
    } const probabilities[] = {
        {"again", &plan.again}, {"fail", &plan.fail},
        {"drop", &plan.drop},   {"late_cancel", &plan.late_cancel},
        {"delay", &plan.delay}, {"spoil", &plan.spoil},
        {"deaf", &plan.deaf},
    };
    for (const auto& p : probabilities) {
        if (key == p.name) {
            return parse_number(value, *p.field) && *p.field >= 0 && *p.field <= 1;
        }
    }
    return key == "lose_peer_at" ? parse_number(value, plan.lose_peer_at)
                                 : key == "seed" && parse_number(value, plan.seed);
}

}  // namespace

Result<Target> parse_target(std::string_view text) {
    const std::size_t question = text.find('?');
    const std::string_view transport = text.substr(0, question);
    const std::size_t plus = transport.find('+');
    if (plus == std::string_view::npos || plus == 0 || plus + 1 == transport.size()) {
        return Error{Status::invalid_arg, fmt::format("\"{}\": name the transport beneath with its "
                                                      "class, as in fault+loop+loop?again=0.3",
                                                      text)};
    }
    Target target{.class_name = std::string(transport.substr(0, plus)),
                  .protocol = std::string(transport.substr(plus + 1)),
                  .plan = {}};
    std::string_view rest =
        question == std::string_view::npos ? std::string_view{} : text.substr(question + 1);
    while (!rest.empty()) {
        const std::string_view item = rest.substr(0, rest.find('&'));
        rest.remove_prefix(item.size() == rest.size() ? item.size() : item.size() + 1);
        const std::size_t equals = item.find('=');
        if (equals == std::string_view::npos ||
            !parse_item(item.substr(0, equals), item.substr(equals + 1), target.plan)) {
            return malformed(item);
        }
    }
    return target;
}

std::string inner_address(std::string_view uri) {
    const std::size_t colon = uri.find(':');
    std::string_view scheme = uri.substr(0, colon);
    const std::string_view rest =
        colon == std::string_view::npos ? std::string_view{} : uri.substr(colon);
    scheme = scheme.substr(0, scheme.find('?'));
    if (const std::size_t plus = scheme.find('+'); plus != std::string_view::npos) {
        scheme.remove_prefix(plus + 1);
    }
    return fmt::format("{}{}", scheme, rest);
}

}  // namespace na::fault
