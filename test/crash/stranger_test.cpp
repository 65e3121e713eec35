// SPDX-License-Identifier: BSD-3-Clause
// Strangers who do speak libfabric, but not our language: messages of any size. The server loses
// them, and nothing else.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include "crash/na_side.hpp"
#include "crash/nursery.hpp"
#include "na/util/ip.hpp"

namespace {

using namespace crash;

struct Closer {
    void operator()(fi_info* info) const noexcept { fi_freeinfo(info); }
    template <typename Fid>
    void operator()(Fid* fid) const noexcept {
        fi_close(&fid->fid);
    }
};
template <typename T>
using Owned = std::unique_ptr<T, Closer>;

void must(ssize_t rc, const char* what) {
    if (rc != 0) {
        throw std::runtime_error(std::string(what) + ": " + fi_strerror(static_cast<int>(-rc)));
    }
}

// The provider that a server of the protocol under test uses, as libfabric is asked for it; empty:
// its endpoints are found otherwise than by host and port.
std::string provider() {
    const std::string& example = support::options().example;
    for (const char* name : {"tcp;ofi_rxm", "tcp", "sockets"}) {
        if (example.starts_with(std::string("ofi+") + name + ":")) {
            return name;
        }
    }
    return {};
}

class Stranger {
 public:
    Stranger(const std::string& name, const std::string& uri) {
        const auto door = na::util::parse_endpoint(support::ip_endpoint(uri));
        PARTY_REQUIRE(door);
        sockaddr_storage address{};
        const std::size_t length = door->address.fill(address, door->port);
        const Owned<fi_info> hints(fi_allocinfo());
        hints->fabric_attr->prov_name = strdup(name.c_str());
        hints->ep_attr->type = FI_EP_RDM;
        hints->caps = FI_MSG;
        hints->mode = FI_CONTEXT | FI_CONTEXT2;
        hints->addr_format = address.ss_family == AF_INET6 ? FI_SOCKADDR_IN6 : FI_SOCKADDR_IN;
        hints->domain_attr->threading = FI_THREAD_SAFE;
        fi_info* list = nullptr;
        must(fi_getinfo(FI_VERSION(1, 11), nullptr, nullptr, 0, hints.get(), &list), "ask");
        const Owned<fi_info> info(list);
        fabric_ = open<fid_fabric>(
            [&](fid_fabric** out) { return fi_fabric(list->fabric_attr, out, nullptr); }, "fabric");
        domain_ = open<fid_domain>(
            [&](fid_domain** out) { return fi_domain(fabric_.get(), list, out, nullptr); },
            "domain");
        fi_av_attr places{};
        places.type = list->domain_attr->av_type;
        av_ = open<fid_av>(
            [&](fid_av** out) { return fi_av_open(domain_.get(), &places, out, nullptr); }, "av");
        fi_cq_attr queue{};
        queue.format = FI_CQ_FORMAT_CONTEXT;
        cq_ = open<fid_cq>(
            [&](fid_cq** out) { return fi_cq_open(domain_.get(), &queue, out, nullptr); }, "cq");
        ep_ = open<fid_ep>(
            [&](fid_ep** out) { return fi_endpoint(domain_.get(), list, out, nullptr); },
            "endpoint");
        must(fi_ep_bind(ep_.get(), &av_->fid, 0), "bind av");
        must(fi_ep_bind(ep_.get(), &cq_->fid, FI_TRANSMIT | FI_RECV), "bind cq");
        must(fi_enable(ep_.get()), "enable");
        PARTY_REQUIRE(length <= sizeof address);
        PARTY_REQUIRE(fi_av_insert(av_.get(), &address, 1, &server_, 0, nullptr) == 1);
    }

    void send(std::size_t size, std::size_t count) {
        bytes_.assign(size, std::byte{0x5a});
        contexts_.resize(count);
        std::size_t ended = 0;
        for (std::size_t sent = 0; ended < count;) {
            if (sent < count) {
                const ssize_t rc =
                    fi_send(ep_.get(), bytes_.data(), size, nullptr, server_, &contexts_[sent]);
                PARTY_REQUIRE((rc == 0 || rc == -FI_EAGAIN));
                sent += rc == 0 ? 1 : 0;
            }
            ended += poll();
        }
    }
    std::size_t poll() {
        fi_cq_entry entries[16];
        const ssize_t n = fi_cq_read(cq_.get(), entries, 16);
        if (n == -FI_EAVAIL) {
            fi_cq_err_entry error{};
            fi_cq_readerr(cq_.get(), &error, 0);
            return 1;
        }
        return n > 0 ? static_cast<std::size_t>(n) : 0;
    }

 private:
    template <typename Fid, typename Open>
    static Owned<Fid> open(Open&& how, const char* what) {
        Fid* fid = nullptr;
        must(how(&fid), what);
        return Owned<Fid>(fid);
    }

    Owned<fid_fabric> fabric_;
    Owned<fid_domain> domain_;
    Owned<fid_av> av_;
    Owned<fid_cq> cq_;
    Owned<fid_ep> ep_;
    fi_addr_t server_ = FI_ADDR_UNSPEC;
    std::vector<std::byte> bytes_;
    std::vector<fi_context2> contexts_;
};

// Beyond any message of ours, and what providers send in one piece, in several, or let the receiver
// fetch.
constexpr std::size_t kSizes[] = {1000, 20'000, 100'000, 300'000, 1'100'000, 4'000'000};

// A server to which strangers come, and visitors who are served.
class Visited {
 public:
    Visited(const std::string& provider, Waiting waiting)
        : visitors_(
              [](std::uint64_t n, const std::string& uri, const std::function<void()>& ready) {
                  NaSide side({});
                  ping(side, side.peer(uri), n);
                  side.close();
                  ready();
              }),
          strangers_(
              [=](std::uint64_t size, const std::string& uri, const std::function<void()>& ready) {
                  Stranger stranger(provider, uri);
                  stranger.send(size, 8);
                  ready();
                  for (;;) {
                      stranger.poll();
                  }
              }),
          side_({.waiting = waiting}),
          inbox_(side_),
          uri_(side_.uri()) {}

    void visit() {
        const auto pump = [this] { side_.turn(1); };
        visitors_.start(1, uri_, pump);
        visitors_.reap(pump);
        CHECK(inbox_.pings() == ++visits_);
    }
    // One that sends eight, and is killed then.
    void stranger(std::size_t size) {
        const auto pump = [this] { side_.turn(1); };
        const pid_t pid = strangers_.start(size, uri_, pump);
        Nursery::kill(pid);
        strangers_.reap(pump);
    }
    void close() {
        inbox_.close();
        side_.close();
    }

 private:
    Nursery visitors_;  // before anything is opened
    Nursery strangers_;
    NaSide side_;
    Inbox inbox_;
    const std::string uri_;
    unsigned visits_ = 0;
};

}  // namespace

TEST_CASE("strangers say too much in libfabric's language", "[na][door]") {
    if (provider().empty()) {
        return;  // no door of libfabric's
    }
    if (FI_VERSION_LT(fi_version(), FI_VERSION(1, 18)) && provider() != "sockets") {
        support::skip("rxm of libfabric 1.17 keeps receives whose message is too large");
        return;
    }
    for (const Waiting waiting : {Waiting::blocking, Waiting::busy}) {
        Visited server(provider(), waiting);
        server.visit();
        for (const std::size_t size : kSizes) {
            INFO(size << " bytes");
            server.stranger(size);
            server.visit();
        }
        server.close();
    }
}
