// SPDX-License-Identifier: BSD-3-Clause
#include "plugins/ofi/endpoint.hpp"

#include <algorithm>
#include <cerrno>
#include <mutex>

#include <fmt/format.h>
#include <rdma/fi_cm.h>

#include "na/session/wire.hpp"
#include "plugins/ofi/parked.hpp"
#include "plugins/ofi/segments.hpp"
#include "plugins/ofi/spots.hpp"

namespace na::ofi {
namespace {

constexpr std::size_t kReceiveBytes = std::size_t{4} << 20;  // for messages, per context
constexpr std::size_t kMultiBuffers = 4;
constexpr std::size_t kMinSingles = 16;
constexpr std::size_t kMaxSingles = 256;
constexpr std::size_t kQueue = 8192;
// A message beyond this comes in several steps, and may fail between them. If it was to be the last
// of a multi-receive, rxm of libfabric 1.17 does not say that the buffer is free again: a server
// loses all of its buffers, one per client that is killed.
constexpr std::size_t kLargestForMulti = 16 * 1024;

Error still_owed() {
    return {Status::addrinuse,
            "the former endpoint of that name had posts under way to others of this process, which "
            "still answer to it: close those, or choose another name"};
}

}  // namespace

Result<std::unique_ptr<Endpoint>> Endpoint::open(const EndpointSpec& spec,
                                                 std::string_view source) {
    const Choice& choice = *spec.choice;
    Info info(fi_dupinfo(choice.info.get()));
    if (info == nullptr || (!source.empty() && !ok(set_source(*info, source)))) {
        return Error{Status::nomem, {}};
    }
    std::unique_ptr<Endpoint> e(
        new Endpoint(choice.provider->naming,
                     choice.provider->multi_recv && spec.largest <= kLargestForMulti, spec.waits));
    fid_ep* ep = nullptr;
    if (const int rc = fi_endpoint(spec.domain, info.get(), &ep, nullptr); rc != 0) {
        return failure(rc, "make an endpoint");
    }
    e->ep_.reset(ep);
    fi_av_attr av_attr{};
    av_attr.type = choice.info->domain_attr->av_type;
    fid_av* av = nullptr;
    if (const int rc = fi_av_open(spec.domain, &av_attr, &av, nullptr); rc != 0) {
        return failure(rc, "make an address vector");
    }
    e->av_.reset(av);
    fi_cq_attr cq_attr{};
    cq_attr.size = kQueue;
    cq_attr.format = FI_CQ_FORMAT_DATA;
    const bool watched = spec.waits || (spec.many && choice.provider->polls_all);
    cq_attr.wait_obj = watched && choice.provider->wait_fd ? FI_WAIT_FD : FI_WAIT_NONE;
    fid_cq* cq = nullptr;
    int rc = fi_cq_open(spec.domain, &cq_attr, &cq, nullptr);
    if (rc != 0 && cq_attr.wait_obj == FI_WAIT_FD) {
        cq_attr.wait_obj = FI_WAIT_NONE;
        rc = fi_cq_open(spec.domain, &cq_attr, &cq, nullptr);
    }
    if (rc != 0) {
        return failure(rc, "make a completion queue");
    }
    e->cq_.reset(cq);
    if (cq_attr.wait_obj == FI_WAIT_FD && fi_control(&cq->fid, FI_GETWAIT, &e->queue_fd_) != 0) {
        e->queue_fd_ = -1;
    }
    rc = fi_ep_bind(ep, &av->fid, 0);
    if (rc == 0) {
        rc = fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV);
    }
    if (rc != 0) {
        return failure(rc, "bind the endpoint");
    }
    if (choice.provider->naming == Naming::text) {
        e->neighbour_name_ = source;
        if (!close_parked(e->neighbour_name_)) {
            return still_owed();
        }
        // The provider would take over what a dead process has left, which survivors may still have
        // mapped. (Once it is a neighbour's it is not looked at.)
        remove_segment(std::string(source.substr(0, source.find('\0'))));
        e->neighbour_ = open_neighbour(e->neighbour_name_);
        if (e->neighbour_ == nullptr) {
            return Error{Status::addrinuse, "this process has an endpoint of that name"};
        }
        if (!close_parked(e->neighbour_name_)) {  // by another thread since
            return still_owed();
        }
    }
    if (Error error = e->listen(choice, source); !ok(error.status)) {
        return error;
    }
    // Not before: shm of libfabric 1.17 has nowhere to keep it until the endpoint is enabled, and
    // crashes.
    if (e->multi_) {
        std::size_t least = std::max(spec.largest, session::kMaxControl);
        rc = fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof least);
        if (rc != 0) {
            return failure(rc, "set the least room for multi-receives");
        }
    }
    // Only now: some providers have nowhere to keep it before.
    if (Error error = e->make_buffers(spec); !ok(error.status)) {
        return error;
    }
    return e;
}

void Endpoint::give_up_name() noexcept {
    if (neighbour_ != nullptr) {
        close_neighbour(neighbour_name_, *neighbour_);
        neighbour_.reset();
    }
    if (segment_) {
        release_segment(segment_.get());
    }
}

Endpoint::~Endpoint() {
    if (neighbour_ != nullptr) {
        close_neighbour(neighbour_name_, *neighbour_);
    }
    if (segment_) {
        // The lock goes after the name: whoever takes that makes his segment under it.
        const SegmentGate gate(SegmentGate::As::maker, kLastLook);
        {
            const SegmentKeeper keeper(segment_name_, segment_.get(), leaves_name_);
            ep_.reset();
            if (!hidden_) {
                leave_spot(segment_name_);
            }
        }
        release_segment(segment_.get());
    }
}

Error Endpoint::listen(const Choice& choice, std::string_view source) {
    if (choice.provider->probe != Probe::process) {
        const int rc = fi_enable(ep_.get());
        return rc == 0 ? Error{Status::success, {}} : failure(rc, "listen");
    }
    const std::string& name = segment_name_ = source.substr(0, source.find('\0'));
    // By itself, where somebody else may want the same name: the provider fails where it is in use,
    // and removes it all the same.
    const SegmentGate gate(made_up(name) ? SegmentGate::As::maker : SegmentGate::As::judge,
                           kLastLook);
    const NameUse use = use_of(name);
    if (use.by == NameUse::By::file) {  // the provider would remove it
        return Error{Status::addrinuse,
                     fmt::format("the file /dev/shm/{} is there, and not an endpoint's: remove it, "
                                 "if nobody needs it, or choose another name",
                                 name)};
    }
    if (use.by == NameUse::By::process) {
        return Error{
            Status::addrinuse,
            fmt::format("/dev/shm/{} is held by {}", name,
                        use.process > 0 ? fmt::format("process {}", use.process)
                                        : std::string("a process of another pid namespace"))};
    }
    const std::unique_lock guard(neighbour_->mutex);
    if (const int rc = fi_enable(ep_.get()); rc != 0) {
        return failure(rc, "listen");
    }
    segment_ = hold_segment(name);
    if (!segment_) {
        const int error = errno;
        // That of libfabric 1.11 gives other names to all endpoints of a domain but the first.
        return Error{
            Status::io_error,
            fmt::format("cannot lock the shared memory /dev/shm/{}: {}{}", name, fi_strerror(error),
                        error == ENOENT ? "; this libfabric allows one context per class, "
                                          "opened once: use a newer one, or several classes"
                                        : "")};
    }
    hidden_ = !choice.provider->forgets_names && !take_spot(name, segment_.get());
    neighbour_->state = hidden_ ? Neighbour::State::hidden : Neighbour::State::open;
    return Error{Status::success, {}};
}

Error Endpoint::make_buffers(const EndpointSpec& spec) {
    const std::size_t least = (std::max(spec.largest, session::kMaxControl) + 63) / 64 * 64;
    std::size_t count = kMultiBuffers;
    buffer_bytes_ = least;
    if (multi_) {
        buffer_bytes_ = std::max(kReceiveBytes / kMultiBuffers, least * 8);
    } else {
        count = std::clamp(kReceiveBytes / least, kMinSingles, kMaxSingles);
    }
    // Not zeroed: the pages are taken as they are used.
    memory_.reset(new std::byte[count * buffer_bytes_]);
    auto mr = spec.registrar->local(memory_.get(), count * buffer_bytes_, *ep_);
    if (!mr) {
        return std::move(mr).error();
    }
    registration_ = std::move(*mr);
    buffers_.resize(count);
    starved_ = count;
    for (std::size_t i = 0; i < count; ++i) {
        ReceiveBuffer& b = buffers_[i];
        b.what = Token::What::buffer;
        b.memory = memory_.get() + i * buffer_bytes_;
        b.descriptor = registration_ == nullptr ? nullptr : fi_mr_desc(registration_.get());
    }
    repost();
    return Error{Status::success, {}};
}

Status Endpoint::post(ReceiveBuffer& buffer) noexcept {
    iovec vector{buffer.memory, buffer_bytes_};
    fi_msg message{};
    message.msg_iov = &vector;
    message.desc = &buffer.descriptor;
    message.iov_count = 1;
    message.addr = FI_ADDR_UNSPEC;
    message.context = &buffer.provider;
    const ssize_t rc = fi_recvmsg(ep_.get(), &message, multi_ ? FI_MULTI_RECV : 0);
    if (rc == 0) {
        buffer.posted = true;
        --starved_;
    }
    return status_of(rc);
}

bool Endpoint::repost() noexcept {
    for (ReceiveBuffer& b : buffers_) {
        if (!b.posted && !ok(post(b))) {
            return false;
        }
    }
    return true;
}

Result<Address> Endpoint::name() const {
    char bytes[Address::kMaxBytes] = {};
    std::size_t size = sizeof bytes;
    if (const int rc = fi_getname(&ep_->fid, bytes, &size); rc != 0) {
        return failure(rc, "get the endpoint's address");
    }
    return Address::from_raw(naming_, bytes, size);
}

}  // namespace na::ofi
