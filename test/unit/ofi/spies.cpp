// SPDX-License-Identifier: BSD-3-Clause
#include "spies.hpp"

#include <dlfcn.h>
#include <rdma/fabric.h>

#include <catch2/catch.hpp>
#include <map>

#include "modes.hpp"
#include "support/two_process.hpp"

std::vector<std::unique_ptr<Listened>>& listened() {
    static std::vector<std::unique_ptr<Listened>> all;
    return all;
}

bool can_open(const std::string& protocol) {
    support::Party party(support::Party::As::process, [&](support::Link& link) {
        link.put(na::Domain::listen(protocol) ? "yes" : "no");
    });
    const bool yes = party.link().take_text() == "yes";
    return party.join().empty() && yes;
}

namespace {

// Puts our functions before the object's. (Objects end with the process: few, and none looks after
// them.)
template <typename Object, typename Ops>
struct Spy {
    static std::map<Object*, Spy*>& all() {
        static std::map<Object*, Spy*> map;
        return map;
    }
    static Spy& of(Object* object) { return *all().at(object); }
    explicit Spy(Object* object) : theirs(object->ops), ours(*object->ops) {
        all()[object] = this;
        object->ops = &ours;
    }
    Ops* theirs;
    Ops ours;
    Listened* listened = nullptr;
};
using QueueSpy = Spy<fid_cq, fi_ops_cq>;
using VectorSpy = Spy<fid_av, fi_ops_av>;
using DomainSpy = Spy<fid_domain, fi_ops_domain>;
using FabricSpy = Spy<fid_fabric, fi_ops_fabric>;

int insert(fid_av* av, const void* address, std::size_t count, fi_addr_t* places,
           std::uint64_t flags, void* context) {
    VectorSpy& spy = VectorSpy::of(av);
    const int n = spy.theirs->insert(av, address, count, places, flags, context);
    if (n == 1) {
        ++spy.listened->inserted;
        CHECK(spy.listened->places.insert(places[0]).second);
    }
    return n;
}

int remove(fid_av* av, fi_addr_t* places, std::size_t count, std::uint64_t flags) {
    VectorSpy& spy = VectorSpy::of(av);
    for (std::size_t i = 0; i < count; ++i) {
        CHECK(spy.listened->places.erase(places[i]) == 1);  // one that is taken, and once
        ++spy.listened->removed;
    }
    return spy.theirs->remove(av, places, count, flags);
}

int av_open(fid_domain* domain, fi_av_attr* attributes, fid_av** av, void* context) {
    const int rc = DomainSpy::of(domain).theirs->av_open(domain, attributes, av, context);
    if (rc == 0) {
        listened().push_back(std::make_unique<Listened>());
        auto* spy = new VectorSpy(*av);
        spy->listened = listened().back().get();
        spy->ours.insert = insert;
        spy->ours.remove = remove;
    }
    return rc;
}

ssize_t read(fid_cq* queue, void* entries, std::size_t count) {
    QueueSpy& spy = QueueSpy::of(queue);
    ++spy.listened->reads;
    return spy.theirs->read(queue, entries, count);
}

// Of the endpoint whose address vector was the last to be opened.
int cq_open(fid_domain* domain, fi_cq_attr* attributes, fid_cq** queue, void* context) {
    const int rc = DomainSpy::of(domain).theirs->cq_open(domain, attributes, queue, context);
    if (rc == 0) {
        auto* spy = new QueueSpy(*queue);
        spy->listened = listened().back().get();
        spy->ours.read = read;
    }
    return rc;
}

int open_endpoint(fid_domain* domain, fi_info* info, fid_ep** endpoint, void* context) {
    fi_info* real = modes::real_info(info);
    const int rc = DomainSpy::of(domain).theirs->endpoint(domain, real, endpoint, context);
    fi_freeinfo(real);
    if (rc == 0) {
        modes::watch_endpoint(*endpoint);
    }
    return rc;
}

int open_domain(fid_fabric* fabric, fi_info* info, fid_domain** domain, void* context) {
    fi_info* real = modes::wanted() == 0 ? info : modes::real_info(info);
    const int rc = FabricSpy::of(fabric).theirs->domain(fabric, real, domain, context);
    if (real != info) {
        fi_freeinfo(real);
    }
    if (rc == 0) {
        auto* spy = new DomainSpy(*domain);
        spy->ours.av_open = av_open;
        spy->ours.cq_open = cq_open;
        if (modes::wanted() != 0) {
            spy->ours.endpoint = open_endpoint;
            modes::watch_domain(*domain);
        }
    }
    return rc;
}

}  // namespace

extern "C" int fi_fabric(fi_fabric_attr* attributes, fid_fabric** fabric, void* context) {
    static const auto real = reinterpret_cast<decltype(&fi_fabric)>(dlsym(RTLD_NEXT, "fi_fabric"));
    static thread_local int depth = 0;  // providers above others open theirs
    ++depth;
    const int rc = real(attributes, fabric, context);
    --depth;
    if (rc == 0 && depth == 0) {
        (new FabricSpy(*fabric))->ours.domain = open_domain;
    }
    return rc;
}
