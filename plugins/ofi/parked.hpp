// SPDX-License-Identifier: BSD-3-Clause
// Endpoints that have closed, though not yet for the provider: a neighbour may still have one in a
// greeting that it has not looked at, and takes it from there through a plain pointer; or a post of
// its that was given up, and answers into it. They wait until all such neighbours have closed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "plugins/ofi/endpoint.hpp"
#include "plugins/ofi/neighbours.hpp"

namespace na::ofi {

// `base`: what the endpoint was made of, which is closed after it. `owed`: some of those neighbours
// will answer.
void park(std::unique_ptr<Endpoint> endpoint, std::shared_ptr<void> base,
          std::vector<std::shared_ptr<Neighbour>> until, bool owed) noexcept;
// Closes those that nobody has any more.
void close_parked() noexcept;
// Another one takes the name: closes that of this name, although it waits. False: it is owed
// something, which would be taken for an answer to the other one.
bool close_parked(const std::string& name) noexcept;

}  // namespace na::ofi
