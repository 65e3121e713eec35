// SPDX-License-Identifier: BSD-3-Clause
// Endpoints that have closed, though not yet for the provider: a neighbour may still have one in a
// greeting that it has not looked at, and takes it from there through a plain pointer. They wait
// until all such neighbours have closed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "plugins/ofi/endpoint.hpp"
#include "plugins/ofi/neighbours.hpp"

namespace na::ofi {

// `base`: what the endpoint was made of, which is closed after it.
void park(std::unique_ptr<Endpoint> endpoint, std::shared_ptr<void> base,
          std::vector<std::shared_ptr<Neighbour>> until) noexcept;
// Closes those that nobody has any more.
void close_parked() noexcept;
// Closes that of this name, whoever has it: another one takes the name.
void close_parked(const std::string& name) noexcept;

}  // namespace na::ofi
