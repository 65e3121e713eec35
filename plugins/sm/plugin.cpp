// SPDX-License-Identifier: BSD-3-Clause
#include "plugins/sm/plugin.hpp"

#include "plugins/sm/domain.hpp"

namespace na::sm {
namespace {

class Plugin final : public plugin::Plugin {
 public:
    std::string_view class_name() const noexcept override { return "na"; }
    std::vector<plugin::ProtocolInfo> protocols() override { return {{"sm", "shm"}}; }
    Result<std::unique_ptr<plugin::Domain>> open(const plugin::OpenSpec& spec) override {
        return Domain::open(spec);
    }
};

}  // namespace

const plugin::Entry sm_entry{
    .name = "sm",
    .create = []() -> std::unique_ptr<plugin::Plugin> { return std::make_unique<Plugin>(); },
};

}  // namespace na::sm
