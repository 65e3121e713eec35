// SPDX-License-Identifier: BSD-3-Clause
// Which host this is, as far as shared memory is concerned.
#pragma once

#include <string>

namespace na::util {

// Which processes can reach each other by shared memory: those of one running kernel and one
// network namespace, in which the endpoints' sockets are named. The same for all of them, different
// for others; letters and digits. Any thread.
const std::string& host_id();

}  // namespace na::util
