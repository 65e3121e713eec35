// SPDX-License-Identifier: BSD-3-Clause
#include "spies.hpp"

#include <dlfcn.h>
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <map>
#include <memory>
#include <stdexcept>
#include <utility>

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

std::optional<Failure>& next_failure() {
    static std::optional<Failure> failure;
    return failure;
}

bool can_open(const std::string& protocol) {
    support::Party party(support::Party::As::process, [&](support::Link& link) {
        link.put(na::Domain::listen(protocol) ? "yes" : "no");
    });
    const bool yes = party.link().take_text() == "yes";
    if (const std::string failure = party.join(); !failure.empty()) {
        throw std::runtime_error("who was to open " + protocol + ": " + failure);
    }
    return yes;
}

namespace {

GateSpy* gate_spy = nullptr;
SpotSpy* spot_spy = nullptr;
RemovalSpy* removal_spy = nullptr;

bool is_gate(int fd) {
    struct stat it {};
    struct stat folder {};
    return fstat(fd, &it) == 0 && stat("/dev/shm", &folder) == 0 && it.st_dev == folder.st_dev &&
           it.st_ino == folder.st_ino;
}

}  // namespace

GateSpy::GateSpy(Answer answer_) : answer(std::move(answer_)) {
    gate_spy = this;
}

GateSpy::~GateSpy() {
    gate_spy = nullptr;
}

SpotSpy::SpotSpy() {
    spot_spy = this;
}

SpotSpy::~SpotSpy() {
    spot_spy = nullptr;
    for (const auto& [at, size] : taken) {
        munmap(at, size);
    }
}

RemovalSpy::RemovalSpy(std::function<void()> seen_) : seen(std::move(seen_)) {
    removal_spy = this;
}

RemovalSpy::~RemovalSpy() {
    removal_spy = nullptr;
}

namespace {

template <typename Place>
struct TableOf;
template <typename O, typename T>
struct TableOf<T * O::*> {
    using Object = O;
    using Ops = T;
};

// Puts our functions before the object's, in one of its tables. Stays until another object is
// opened at the same address, or the process ends.
template <typename Self, auto kPlace>
struct Spy {
    using Object = typename TableOf<decltype(kPlace)>::Object;
    using Ops = typename TableOf<decltype(kPlace)>::Ops;
    static std::map<Object*, std::unique_ptr<Self>>& all() {
        static std::map<Object*, std::unique_ptr<Self>> map;
        return map;
    }
    static Self& on(Object* object) { return *(all()[object] = std::make_unique<Self>(object)); }
    static Self& of(Object* object) { return *all().at(object); }
    explicit Spy(Object* object) : theirs(object->*kPlace), ours(*theirs) {
        object->*kPlace = &ours;
    }
    Spy(const Spy&) = delete;
    Spy& operator=(const Spy&) = delete;

    Ops* theirs;
    Ops ours;
    Listened* listened = nullptr;
};
struct QueueSpy : Spy<QueueSpy, &fid_cq::ops> {
    using Spy::Spy;
    std::vector<fi_cq_err_entry> errors;  // withheld
    std::vector<fi_cq_err_entry> told;    // next to be read
    std::map<int, std::string> words;     // of errors of ours
};
struct VectorSpy : Spy<VectorSpy, &fid_av::ops> {
    using Spy::Spy;
};
struct DomainSpy : Spy<DomainSpy, &fid_domain::ops> {
    using Spy::Spy;
};
struct FabricSpy : Spy<FabricSpy, &fid_fabric::ops> {
    using Spy::Spy;
};

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
        VectorSpy& spy = VectorSpy::on(*av);
        spy.listened = listened().back().get();
        spy.ours.insert = insert;
        spy.ours.remove = remove;
    }
    return rc;
}

ssize_t read(fid_cq* queue, void* entries, std::size_t count) {
    QueueSpy& spy = QueueSpy::of(queue);
    ++spy.listened->reads;
    auto* list = static_cast<fi_cq_data_entry*>(entries);
    if (!spy.told.empty() || (!withholds() && !spy.errors.empty())) {
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
        if (next_failure()) {
            auto* failed = std::find_if(list, end, [](const fi_cq_data_entry& e) {
                return transfers().contains(e.op_context);
            });
            if (failed != end) {
                fi_cq_err_entry error{};
                error.op_context = failed->op_context;
                error.err = next_failure()->error;
                error.prov_errno = next_failure()->provider_error;
                spy.words[error.prov_errno] = next_failure()->words;
                spy.told.push_back(error);
                next_failure().reset();
                end = std::copy(failed + 1, end, failed);
            }
        }
        for (auto* e = list; e != end; ++e) {
            transfers().erase(e->op_context);
        }
        if (end != list) {
            return end - list;
        }
        if (!spy.told.empty()) {
            return -FI_EAVAIL;
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

const char* strerror(fid_cq* queue, int provider_error, const void* data, char* text,
                     std::size_t size) {
    QueueSpy& spy = QueueSpy::of(queue);
    const auto it = spy.words.find(provider_error);
    return it != spy.words.end() ? it->second.c_str()
                                 : spy.theirs->strerror(queue, provider_error, data, text, size);
}

// Its puts and gets.
struct EndpointSpy : Spy<EndpointSpy, &fid_ep::rma> {
    explicit EndpointSpy(fid_ep* endpoint) : Spy(endpoint) {
        ours.readmsg = [](fid_ep* ep, const fi_msg_rma* message, std::uint64_t flags) {
            return noted(of(ep).theirs->readmsg(ep, message, flags), message);
        };
        ours.writemsg = [](fid_ep* ep, const fi_msg_rma* message, std::uint64_t flags) {
            return noted(of(ep).theirs->writemsg(ep, message, flags), message);
        };
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
        QueueSpy& spy = QueueSpy::on(*queue);
        spy.listened = listened().back().get();
        spy.ours.read = read;
        spy.ours.readerr = readerr;
        spy.ours.strerror = strerror;
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
    fi_info* real = modes::real_info(info);
    const int rc = DomainSpy::of(domain).theirs->endpoint(domain, real, endpoint, context);
    fi_freeinfo(real);
    if (rc == 0) {
        EndpointSpy::on(*endpoint);
    }
    return rc;
}

int open_domain(fid_fabric* fabric, fi_info* info, fid_domain** domain, void* context) {
    modes::opened().push_back(modes::wish_of(*info));
    fi_info* real = modes::stands_between() ? modes::real_info(info) : info;
    const int rc = FabricSpy::of(fabric).theirs->domain(fabric, real, domain, context);
    if (real != info) {
        fi_freeinfo(real);
    }
    if (rc == 0) {
        DomainSpy& spy = DomainSpy::on(*domain);
        spy.ours.av_open = av_open;
        spy.ours.cq_open = cq_open;
        spy.ours.endpoint = open_watched;
        if (modes::wanted() != 0) {
            spy.ours.endpoint = open_endpoint;
            modes::watch_domain(*domain);
        }
    }
    return rc;
}

}  // namespace

extern "C" int fi_fabric(fi_fabric_attr* attributes, fid_fabric** fabric, void* context) {
    static const auto real = reinterpret_cast<decltype(&fi_fabric)>(dlsym(RTLD_NEXT, "fi_fabric"));
    if (modes::is_card(*attributes)) {
        return -FI_ENODEV;
    }
    static thread_local int depth = 0;  // providers above others open theirs
    ++depth;
    const int rc = real(attributes, fabric, context);
    --depth;
    if (rc == 0 && depth == 0) {
        FabricSpy::on(*fabric).ours.domain = open_domain;
    }
    return rc;
}

extern "C" int flock(int fd, int operation) noexcept {
    static const auto real = reinterpret_cast<decltype(&flock)>(dlsym(RTLD_NEXT, "flock"));
    if (gate_spy != nullptr && (operation & LOCK_EX) != 0 && is_gate(fd)) {
        gate_spy->tries.push_back(std::chrono::steady_clock::now());
        if (const int error = gate_spy->answer(gate_spy->tries.back() - gate_spy->tries.front());
            error != 0) {
            errno = error;
            return -1;
        }
    }
    return real(fd, operation);
}

extern "C" int shm_unlink(const char* name) {
    static const auto real =
        reinterpret_cast<decltype(&shm_unlink)>(dlsym(RTLD_NEXT, "shm_unlink"));
    const int rc = real(name);
    if (removal_spy != nullptr && rc == 0) {
        removal_spy->seen();
    }
    return rc;
}

// Not beneath a sanitizer, which has to see what is mapped.
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
extern "C" void* mmap(void* at, std::size_t size, int access, int flags, int fd,
                      off_t offset) noexcept {
    if (spot_spy != nullptr && (flags & MAP_FIXED_NOREPLACE) == MAP_FIXED_NOREPLACE) {
        if (syscall(SYS_mmap, at, size, access, flags, fd, offset) != -1) {
            spot_spy->taken.emplace_back(at, size);
        }
        errno = EEXIST;
        return MAP_FAILED;
    }
    return reinterpret_cast<void*>(syscall(SYS_mmap, at, size, access, flags, fd, offset));
}

bool SpotSpy::possible() {
    return true;
}
#else
bool SpotSpy::possible() {
    return false;
}
#endif
