// SPDX-License-Identifier: BSD-3-Clause
#include "plugins/ofi/plugin.hpp"

#include <cstdlib>

#include <fmt/format.h>
#include <rdma/fabric.h>

#include "na/util/log.hpp"
#include "plugins/ofi/domain.hpp"
#include "plugins/ofi/info.hpp"
#include "plugins/ofi/providers.hpp"

namespace na::ofi {
namespace {

class Plugin final : public plugin::Plugin {
 public:
    std::string_view class_name() const noexcept override { return "ofi"; }
    std::vector<plugin::ProtocolInfo> protocols() override { return list_protocols(); }
    bool accepts(std::string_view protocol) override { return known_protocol(protocol); }
    Result<std::unique_ptr<plugin::Domain>> open(const plugin::OpenSpec& spec) override {
        plugin::OpenSpec usual = spec;
        usual.protocol = usual_name(spec.protocol);
        auto domain = Domain::open(usual);
        if (usual.protocol != "psm2") {
            return domain;
        }
        constexpr std::string_view kInstead = "psm2 is deprecated, use ofi+opx";
        if (!domain) {
            return Error{domain.status(), fmt::format("{}; {}", kInstead, domain.error().message)};
        }
        NA_LOG_WARNING(cls, "{}", kInstead);
        return domain;
    }
    std::string library() const override {
        const std::uint32_t v = fi_version();
        std::string text = fmt::format("libfabric {}.{}", FI_MAJOR(v), FI_MINOR(v));
        for (const std::string_view protocol : ambiguous_protocols()) {
            if (const std::string_view chosen = provider_of(protocol); !chosen.empty()) {
                text += fmt::format(", {} is provider {}", protocol, chosen);
            }
        }
        return text;
    }
};

std::unique_ptr<plugin::Plugin> create() {
    for (const Setting& s : settings()) {
        (void)setenv(s.variable, s.value, 0);
    }
    return std::make_unique<Plugin>();
}

}  // namespace

const plugin::Entry ofi_entry{.name = "ofi", .create = create};

}  // namespace na::ofi

#ifdef CINNABAR_PLUGIN_MODULE
extern "C" const na::plugin::Entry na_plugin_entry;
const na::plugin::Entry na_plugin_entry{.name = "ofi", .create = na::ofi::create};
#endif
