// SPDX-License-Identifier: BSD-3-Clause
// Messages that announce more than their payload (HG_CORE_MORE_DATA): the receiver's program
// fetches it, by whatever means the two ends have agreed on, before the message is served.
//
// The program is asked in trigger, as all user code runs there, and says on any thread when it is
// done. The sender learns that from the response (a request), or from an acknowledgement, as with
// payloads beyond the eager size.
#include <bit>

#include "hg/context.hpp"
#include "hg/handle.hpp"
#include "na/util/log.hpp"

namespace hg {

using na::Status;

// --- target
// -------------------------------------------------------------------------------------------------------

// Inside handlers. False: it is refused.
bool Handle::may_take_more() noexcept {
    if (info_.cls->more_data().acquire == nullptr) {
        na::Counter& refused = port_->counters.more_refused;
        refused.add();
        if (std::has_single_bit(refused.get())) {
            NA_LOG_WARNING(rpc,
                           "RPC {}: its request announces more data, which this program does "
                           "not fetch (HG_Core_set_more_data_callback); {} such requests so far",
                           name(), refused.get());
        }
        reject_later(Status::opnotsupported);
        return false;
    }
    return true;
}

void Handle::more_arrived() noexcept {
    refs_.store(kLibraryRef, std::memory_order_relaxed);  // it is not the program's yet
    stage_.store(Stage::answering, std::memory_order_release);
    finish(&Handle::acquire_input);
}

void Handle::acquire_input(Completion& c) {
    of(c).acquire_more(true);
}

void Handle::acquire_more(bool input) {
    const Class::MoreData more = info_.cls->more_data();
    if (more.acquire == nullptr) {  // any more
        more_done(Status::opnotsupported);
        return;
    }
    more_acquired_ = true;
    try {
        // After success the handle may be another thread's already.
        if (const Status s = more.acquire(*this, input, more.user_acquire); !ok(s)) {
            more_done(s);
        }
    } catch (...) {  // for the program, which catches it around trigger
        more_done(Status::other_error);
        throw;
    }
}

// --- origin
// -------------------------------------------------------------------------------------------------------

void Handle::acquire_output(Completion& c) {
    Handle& h = of(c);
    if (h.info_.cls->more_data().acquire == nullptr) {
        h.note(Status::opnotsupported);
    }
    if (h.cancel_asked_.load(std::memory_order_seq_cst)) {
        h.note(Status::canceled);
    }
    if (!ok(h.status_.load(std::memory_order_relaxed))) {
        h.more_done(Status::success);  // nothing is fetched, but the target waits
        return;
    }
    h.acquire_more(false);
}

// --- both
// ---------------------------------------------------------------------------------------------------------

void Handle::more_done(Status status) noexcept {
    Context& context = *info_.context;
    note(status);
    if (!target_) {
        call_.more_wanted = false;
        acknowledge();
        return;
    }
    if (!ok(status)) {
        if (!ok(send_response(status, 0, {}, nullptr, 0))) {  // the peer may be gone
            context.unanswered_.fetch_add(1, std::memory_order_relaxed);
        }
        stage_.store(Stage::answered, std::memory_order_release);
        unref();
    } else if (!one_way_) {
        add_refs(kUserRef + answer_ref());  // the other is dispatch()'s
        hand_on();
    } else {
        // Its origin has no response to learn from. The reference of the sending becomes
        // dispatch()'s.
        dispatch_due_ = true;
        ref_user();
        if (ok(send_response(Status::success, 0, {}, nullptr, 0))) {
            unref();
        } else {
            dispatch_due_ = false;
            hand_on();
        }
    }
    context.settle();
}

void Handle::release_more() noexcept {
    more_acquired_ = false;
    const Class::MoreData more = info_.cls->more_data();
    if (more.release != nullptr) {
        more.release(*this, more.user_release);
    }
}

}  // namespace hg
