// SPDX-License-Identifier: BSD-3-Clause
// What waits in a context for trigger: an embedded node with the function that runs the user's
// callback.
#pragma once

#include "na/core/completion_queue.hpp"

namespace hg {

struct Completion : na::CompletionQueue::Node {
    // Runs inside trigger, on the user's thread, under no lock, exactly once per
    // Context::complete(). It may reuse or free the object that the node is part of.
    using Run = void (*)(Completion& self);
    Run run = nullptr;
};

}  // namespace hg
