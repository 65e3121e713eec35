// SPDX-License-Identifier: BSD-3-Clause
#include "plugins/ucx/plugin.hpp"

#include <fmt/format.h>

#include "na/util/config.hpp"
#include "plugins/ucx/domain.hpp"
#include "plugins/ucx/library.hpp"
#include "plugins/ucx/settings.hpp"
#include "plugins/ucx/transports.hpp"

namespace na::ucx {
namespace {

class Plugin final : public plugin::Plugin {
 public:
    std::string_view class_name() const noexcept override { return "ucx"; }
    std::vector<plugin::ProtocolInfo> protocols() override { return list_protocols(); }
    bool accepts(std::string_view protocol) override { return known_protocol(protocol); }
    Result<std::unique_ptr<plugin::Domain>> open(const plugin::OpenSpec& spec) override {
        return Domain::open(spec);
    }
    std::string library() const override {
        const std::string variables = users_variables();
        return fmt::format("UCX {}, puts and gets: {}{}{}", version_text(),
                           config::value(config::kUcxRma), variables.empty() ? "" : ", ",
                           variables);
    }
};

std::unique_ptr<plugin::Plugin> create() {
    return std::make_unique<Plugin>();
}

}  // namespace

const plugin::Entry ucx_entry{.name = "ucx", .create = create};

}  // namespace na::ucx

#ifdef CINNABAR_PLUGIN_MODULE
extern "C" const na::plugin::Entry na_plugin_entry;
const na::plugin::Entry na_plugin_entry{.name = "ucx", .create = na::ucx::create};
#endif
