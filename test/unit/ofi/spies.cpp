// SPDX-License-Identifier: BSD-3-Clause
#include "spies.hpp"

#include <dlfcn.h>
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "modes.hpp"
#include "support/two_process.hpp"

std::vector<std::unique_ptr<Listened>>& listened() {
    static std::vector<std::unique_ptr<Listened>> all;
    return all;
}

std::set<void*>& transfers() {
    static std::set<void*> all;
    return all;
}

bool& withholds() {
    static bool yes = false;
    return yes;
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
struct QueueSpy : Spy<fid_cq, fi_ops_cq> {
    using Spy::Spy;
    static QueueSpy& of(fid_cq* queue) { return static_cast<QueueSpy&>(Spy::of(queue)); }
    std::vector<fi_cq_err_entry> errors;  // withheld
    std::vector<fi_cq_err_entry> told;    // next to be read
};
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
    auto* list = static_cast<fi_cq_data_entry*>(entries);
    if (!withholds() && !spy.errors.empty()) {
        return -FI_EAVAIL;
    }
    for (;;) {
        const ssize_t n = spy.theirs->read(queue, entries, count);
        if (n == -FI_EAVAIL && withholds()) {
            fi_cq_err_entry error{};
            PARTY_REQUIRE(spy.theirs->readerr(queue, &error, 0) == 1);
            const bool kept = transfers().contains(error.op_context);
            (kept ? spy.errors : spy.told).push_back(error);
            if (kept) {
                continue;
            }
            return n;
        }
        if (n <= 0) {
            return n;
        }
        auto* end = list + n;
        if (withholds()) {
            end = std::remove_if(list, end, [&](const fi_cq_data_entry& e) {
                const bool kept = transfers().contains(e.op_context);
                if (kept) {  // its end is all that matters
                    fi_cq_err_entry error{};
                    error.op_context = e.op_context;
                    error.err = FI_ECANCELED;
                    spy.errors.push_back(error);
                }
                return kept;
            });
        }
        for (auto* e = list; e != end; ++e) {
            transfers().erase(e->op_context);
        }
        if (end != list) {
            return end - list;
        }
    }
}

ssize_t readerr(fid_cq* queue, fi_cq_err_entry* error, std::uint64_t flags) {
    QueueSpy& spy = QueueSpy::of(queue);
    auto& mine = !spy.told.empty() ? spy.told : spy.errors;
    if (!mine.empty() && (&mine == &spy.told || !withholds())) {
        *error = mine.front();
        mine.erase(mine.begin());
    } else if (const ssize_t n = spy.theirs->readerr(queue, error, flags); n <= 0) {
        return n;
    }
    transfers().erase(error->op_context);
    return 1;
}

// Its own table of functions for puts and gets.
struct EndpointSpy {
    static std::map<fid_ep*, fi_ops_rma*>& theirs() {
        static std::map<fid_ep*, fi_ops_rma*> map;
        return map;
    }
    static void watch(fid_ep* endpoint) {
        theirs()[endpoint] = endpoint->rma;
        auto* ours = new fi_ops_rma(*endpoint->rma);
        ours->readmsg = [](fid_ep* ep, const fi_msg_rma* message, std::uint64_t flags) {
            return noted(theirs().at(ep)->readmsg(ep, message, flags), message);
        };
        ours->writemsg = [](fid_ep* ep, const fi_msg_rma* message, std::uint64_t flags) {
            return noted(theirs().at(ep)->writemsg(ep, message, flags), message);
        };
        endpoint->rma = ours;
    }
    static ssize_t noted(ssize_t rc, const fi_msg_rma* message) {
        if (rc == 0) {
            transfers().insert(message->context);
        }
        return rc;
    }
};

// Of the endpoint whose address vector was the last to be opened.
int cq_open(fid_domain* domain, fi_cq_attr* attributes, fid_cq** queue, void* context) {
    const int rc = DomainSpy::of(domain).theirs->cq_open(domain, attributes, queue, context);
    if (rc == 0) {
        auto* spy = new QueueSpy(*queue);
        spy->listened = listened().back().get();
        spy->ours.read = read;
        spy->ours.readerr = readerr;
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

int open_watched(fid_domain* domain, fi_info* info, fid_ep** endpoint, void* context) {
    const int rc = DomainSpy::of(domain).theirs->endpoint(domain, info, endpoint, context);
    if (rc == 0) {
        EndpointSpy::watch(*endpoint);
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
        spy->ours.endpoint = open_watched;
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
