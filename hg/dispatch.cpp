// SPDX-License-Identifier: BSD-3-Clause
// Target: runs the user's handler of an arrived request.
#include <new>

#include "hg/context.hpp"
#include "hg/handle.hpp"
#include "na/util/log.hpp"

namespace hg {

using na::Status;

void Handle::dispatch(Completion& c) {
    Handle& h = of(c);
    const Unref after(h);
    const Registration::Functions& f = h.registration_->functions();
    try {
        const Status s = f.invoke(h, f.user);
        if (!ok(s)) [[unlikely]] {
            h.handler_failed(s);
        }
    } catch (const std::bad_alloc&) {
        h.handler_failed(Status::nomem);
        throw;
    } catch (...) {  // for the program, which catches it around trigger
        h.handler_failed(Status::other_error);
        throw;
    }
}

// Its code goes to the origin, unless the handler has answered itself.
void Handle::handler_failed(Status s) noexcept {
    if (!one_way_ && swap_stage(Stage::received, Stage::answering)) {
        if (!ok(respond_error(s, {}))) {
            stage_.store(Stage::answered, std::memory_order_release);
        }
    }
}

}  // namespace hg
