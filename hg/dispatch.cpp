// SPDX-License-Identifier: BSD-3-Clause
// Target: runs the user's handler of an arrived request.
#include "hg/context.hpp"
#include "hg/handle.hpp"
#include "na/util/log.hpp"

namespace hg {

using na::Status;

void Handle::dispatch(Completion& c) {
    Handle& h = of(c);
    const Registration::Functions& f = h.registration_->functions();
    const Status s = f.invoke(h, f.user);
    // The handler failed and has not answered itself: its code goes to the origin.
    if (!ok(s) && !h.one_way_ && h.swap_stage(Stage::received, Stage::answering)) [[unlikely]] {
        if (!ok(h.respond_error(s, {}))) {
            h.stage_.store(Stage::answered, std::memory_order_release);
        }
    }
    h.unref();
}

}  // namespace hg
