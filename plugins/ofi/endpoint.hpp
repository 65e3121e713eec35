// SPDX-License-Identifier: BSD-3-Clause
// What one context has of libfabric: endpoint, address vector, completion queue, and the buffers
// that messages come in.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "na/session/address.hpp"
#include "na/util/fd.hpp"
#include "plugins/ofi/fabric.hpp"
#include "plugins/ofi/info.hpp"
#include "plugins/ofi/memory.hpp"
#include "plugins/ofi/neighbours.hpp"

namespace na::ofi {

using session::Address;

// What libfabric gets as context of an operation: the provider's own space first, then what it was.
struct Token {
    enum class What : std::uint8_t { buffer, request };
    fi_context2 provider{};
    What what = What::request;
};

// A posted receive buffer.
struct ReceiveBuffer : Token {
    std::byte* memory = nullptr;
    void* descriptor = nullptr;
    bool posted = false;
};

struct EndpointSpec {
    fid_fabric* fabric = nullptr;
    fid_domain* domain = nullptr;
    const Choice* choice = nullptr;
    const Registrar* registrar = nullptr;
    std::size_t largest = 0;  // message
    bool waits = true;        // a descriptor is wanted
    bool many = false;        // of peers there may be: some come by themselves
};

class Endpoint {
 public:
    // Listens at `source` (bytes as libfabric has them). Errors: addrinuse, and what libfabric
    // says.
    static Result<std::unique_ptr<Endpoint>> open(const EndpointSpec& spec,
                                                  std::string_view source);

    ~Endpoint();

    fid_ep* ep() const noexcept { return ep_.get(); }
    fid_cq* cq() const noexcept { return cq_.get(); }
    fid_av* av() const noexcept { return av_.get(); }
    // Several messages go into one buffer.
    bool multi() const noexcept { return multi_; }
    // -1: the provider has none, or nobody waits
    int wait_fd() const noexcept { return waits_ ? queue_fd_ : -1; }
    int queue_fd() const noexcept { return queue_fd_; }  // likewise, but for who waits
    Result<Address> name() const;

    // Naming::text: a peer may still have to look up its name, so that this must not go with it.
    void leave_name() noexcept { leaves_name_ = true; }
    // The same: for others it closes now.
    void give_up_name() noexcept;
    const std::string& known_as() const noexcept { return neighbour_name_; }  // with its NUL
    bool hidden() const noexcept { return hidden_; }  // from others of this process

    // Gives a buffer to the provider, or again. again: later.
    Status post(ReceiveBuffer& buffer) noexcept;
    // Posts what could not be posted.
    bool repost() noexcept;
    bool starved() const noexcept { return starved_ != 0; }
    void unposted(ReceiveBuffer& buffer) noexcept {
        buffer.posted = false;
        ++starved_;
    }

 private:
    Endpoint(Naming naming, bool multi, bool waits)
        : naming_(naming), multi_(multi), waits_(waits) {}
    Error listen(const Choice& choice, std::string_view source);
    Error make_buffers(const EndpointSpec& spec);

    const Naming naming_;
    const bool multi_;
    const bool waits_;
    std::size_t buffer_bytes_ = 0;
    std::size_t starved_ = 0;
    std::unique_ptr<std::byte[]> memory_;
    FabricMr registration_;
    std::vector<ReceiveBuffer> buffers_;
    util::UniqueFd segment_;  // holds it
    FabricAv av_;
    FabricCq cq_;
    FabricEp ep_;  // closed first
    int queue_fd_ = -1;
    bool leaves_name_ = false;
    bool hidden_ = false;
    std::string neighbour_name_;
    std::string segment_name_;
    std::shared_ptr<Neighbour> neighbour_;
};

}  // namespace na::ofi
