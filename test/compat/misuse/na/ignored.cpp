// SPDX-License-Identifier: BSD-3-Clause
// wants: nodiscard
#include "na/domain.hpp"

namespace {

[[maybe_unused]] void use(na::Context& context, na::Operation& op, na::Address& peer,
                          na::Buffer& buffer) {
    context.send_unexpected(op, peer, 1, buffer.first(5), [](na::Status) {});
}

}  // namespace
