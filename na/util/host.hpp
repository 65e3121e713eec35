// SPDX-License-Identifier: BSD-3-Clause
// Which host this is, as far as shared memory is concerned.
#pragma once

#include <cstdint>
#include <string>

namespace na::util {

// Which processes can reach each other by shared memory: those of one running kernel, one network
// namespace, in which the endpoints' sockets are named, one pid namespace, in which they know each
// other, and one user, unless NA_SM_ALLOW_UIDS is set. The same for all of them, different for
// others: others are called over the network. Eleven letters and digits. Any thread.
const std::string& host_id();

// The same, looked up anew. Throws std::bad_alloc.
std::string find_host_id();

// The network namespace and the pid namespace of this process, as one number. Two processes of one
// running kernel have the same number if both namespaces are the same. Looked up anew; 0 if /proc
// cannot be read. Any thread. Throws std::bad_alloc.
std::uint32_t find_namespaces();

}  // namespace na::util
