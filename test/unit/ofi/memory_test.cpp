// SPDX-License-Identifier: BSD-3-Clause
// What peers are told of registered memory: numbers as keys, and keys of the provider's own
// (FI_MR_RAW).
//
// The provider is the few functions that registrations need: libfabric calls them through the
// objects themselves.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "plugins/ofi/memory.hpp"
#include "support/options.hpp"
#include "support/payload.hpp"

using namespace na;
using na::ofi::Registrar;

// Present with leak sanitizer only.
extern "C" void __lsan_disable() __attribute__((weak));
extern "C" void __lsan_enable() __attribute__((weak));

namespace {

// What this thread allocates meanwhile is nobody's leak.
struct LeaksBeside {
    LeaksBeside() {
        if (__lsan_disable != nullptr) {
            __lsan_disable();
        }
    }
    ~LeaksBeside() {
        if (__lsan_enable != nullptr) {
            __lsan_enable();
        }
    }
    LeaksBeside(const LeaksBeside&) = delete;
    LeaksBeside& operator=(const LeaksBeside&) = delete;
};

class Provider : public fid_domain {
 public:
    Provider(int mode, std::size_t key_size) : fid_domain{} {
        operations_.control = control;
        memory_operations_.control = memory_control;
        memory_operations_.bind = memory_bind;
        memory_operations_.close = memory_close;
        memory_.regattr = regattr;
        fid.ops = &operations_;
        mr = &memory_;
        info_.domain_attr = &attributes_;
        attributes_.mr_mode = mode;
        attributes_.mr_key_size = key_size;
        registrar.open(this, info_);
    }
    ~Provider() {
        CHECK(registrations == 0);
        CHECK(mapped.empty());
    }

    struct Mapped {
        std::uint64_t base;
        std::vector<std::uint8_t> key;
    };

    Registrar registrar;
    int registrations = 0;                   // that exist
    std::map<std::uint64_t, Mapped> mapped;  // raw keys that are not given back, by their number
    std::size_t mappings = 0;                // that were asked for
    std::size_t longest = 0;                 // key of those
    std::size_t real_key = 0;                // bytes of the keys
    int refuse = -1;                         // that mapping, counted from 0
    fid_ep endpoint{};
    std::vector<fi_mr_attr> asked;  // of registrations
    bool refuse_bind = false;

    // The key of the registration of this memory.
    std::vector<std::uint8_t> key_of(const void* memory) const {
        std::vector<std::uint8_t> key(real_key);
        support::fill(std::as_writable_bytes(std::span(key)),
                      reinterpret_cast<std::uintptr_t>(memory));
        return key;
    }

 private:
    struct Registration : fid_mr {
        Provider* provider;
        void* memory;
        bool bound = false;
    };

    static int regattr(struct fid* domain, const fi_mr_attr* attr, std::uint64_t, fid_mr** made) {
        auto* self = static_cast<Provider*>(reinterpret_cast<fid_domain*>(domain));
        auto* r = new Registration{};
        r->fid.ops = &self->memory_operations_;
        r->provider = self;
        r->memory = attr->mr_iov->iov_base;
        r->key = self->later() ? FI_KEY_NOTAVAIL : self->give_key(attr->requested_key);
        self->asked.push_back(*attr);
        ++self->registrations;
        *made = r;
        return 0;
    }
    // The key is there when the registration is enabled, or as bytes only.
    bool later() const { return (attributes_.mr_mode & (FI_MR_RAW | FI_MR_ENDPOINT)) != 0; }
    std::uint64_t give_key(std::uint64_t requested) {
        return (attributes_.mr_mode & FI_MR_PROV_KEY) != 0 ? ++last_key_ : requested;
    }
    static Registration& of(struct fid* f) {
        return *static_cast<Registration*>(reinterpret_cast<fid_mr*>(f));
    }
    static int memory_close(struct fid* f) {
        --of(f).provider->registrations;
        delete &of(f);
        return 0;
    }
    static int memory_bind(struct fid* f, struct fid* to, std::uint64_t flags) {
        CHECK(to == &of(f).provider->endpoint.fid);
        CHECK(flags == 0);
        of(f).bound = !of(f).provider->refuse_bind;
        return of(f).bound ? 0 : -FI_EINVAL;
    }
    static int memory_control(struct fid* f, int command, void* argument) {
        if (command == FI_ENABLE) {
            CHECK(of(f).bound);
            of(f).key = of(f).provider->give_key(of(f).provider->asked.back().requested_key);
            return 0;
        }
        if (command != FI_GET_RAW_MR) {
            return -FI_ENOSYS;
        }
        auto& raw = *static_cast<struct fi_mr_raw_attr*>(argument);
        const auto key = of(f).provider->key_of(of(f).memory);
        const std::size_t room = std::exchange(*raw.key_size, key.size());
        if (room < key.size()) {
            return -FI_ETOOSMALL;
        }
        std::copy(key.begin(), key.end(), raw.raw_key);
        *raw.base_addr = reinterpret_cast<std::uintptr_t>(of(f).memory) ^ 1;
        return 0;
    }
    static int control(struct fid* domain, int command, void* argument) {
        auto* self = static_cast<Provider*>(reinterpret_cast<fid_domain*>(domain));
        if (command == FI_UNMAP_KEY) {
            CHECK(self->mapped.erase(*static_cast<std::uint64_t*>(argument)) == 1);
            return 0;
        }
        if (command != FI_MAP_RAW_MR) {
            return -FI_ENOSYS;
        }
        const auto& raw = *static_cast<struct fi_mr_map_raw*>(argument);
        self->longest = std::max(self->longest, raw.key_size);
        const std::size_t number = self->mappings++;
        if (static_cast<int>(number) == self->refuse) {
            return -FI_EINVAL;
        }
        *raw.key = 1000 + number;
        self->mapped[*raw.key] = {raw.base_addr, {raw.raw_key, raw.raw_key + raw.key_size}};
        return 0;
    }

    fi_ops operations_{};
    fi_ops memory_operations_{};
    fi_ops_mr memory_{};
    fi_info info_{};
    fi_domain_attr attributes_{};
    std::uint64_t last_key_ = 70;
};

// Three segments.
struct Memory {
    std::byte first[100] = {};
    std::byte second[1] = {};
    std::byte third[4000] = {};
    Segment segments[3] = {{first, sizeof first}, {second, sizeof second}, {third, sizeof third}};
    std::uint64_t length = sizeof first + sizeof second + sizeof third;
};

std::vector<std::byte> told(const Provider& p, const Memory& m) {
    auto region = p.registrar.make(m.segments, Access::read_write, MemoryKind::host, 0);
    REQUIRE(region);
    std::vector<std::byte> bytes((*region)->encode({}));
    REQUIRE((*region)->encode(bytes) == bytes.size());
    return bytes;
}

// As whoever passes it on describes it.
std::vector<std::byte> told_again(const plugin::Region& region) {
    std::vector<std::byte> bytes(region.encode({}));
    REQUIRE(region.encode(bytes) == bytes.size());
    return bytes;
}

const ofi::Region& as_region(const Result<std::unique_ptr<plugin::Region>>& r) {
    return static_cast<const ofi::Region&>(**r);
}

}  // namespace

TEST_CASE("numbers as keys", "[ofi][memory]") {
    const bool virtual_addresses = GENERATE(false, true);
    Provider p(virtual_addresses ? FI_MR_VIRT_ADDR : 0, 8);
    Memory m;
    auto mine = p.registrar.make(m.segments, Access::read_write, MemoryKind::host, 0);
    REQUIRE(mine);
    CHECK(p.registrations == 3);
    std::vector<std::byte> bytes((*mine)->encode({}));
    CHECK((*mine)->encode(std::span(bytes).first(bytes.size() - 1)) == bytes.size());
    CHECK(std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; }));
    (*mine)->encode(bytes);

    const auto theirs = p.registrar.decode(bytes, m.length);
    REQUIRE(theirs);
    CHECK(told_again(**theirs) == bytes);
    std::uint64_t start = 0;
    for (const Segment& s : m.segments) {
        const auto& part = as_region(theirs).at(start + s.length - 1);
        CHECK(part.start == start);
        CHECK(part.length == s.length);
        CHECK(part.address == (virtual_addresses ? reinterpret_cast<std::uintptr_t>(s.base) : 0));
        CHECK(part.key == as_region(mine).at(start).key);
        start += s.length;
    }
    CHECK(p.mappings == 0);
}

TEST_CASE("registrations that belong to an endpoint are bound to it and enabled", "[ofi][memory]") {
    const bool own_keys = GENERATE(false, true);
    Provider p(FI_MR_ENDPOINT | (own_keys ? FI_MR_PROV_KEY : 0), 8);
    p.registrar.bind_to(&p.endpoint);
    Memory m;
    {
        auto mine = p.registrar.make(m.segments, Access::read_write, MemoryKind::host, 0);
        REQUIRE(mine);
        std::uint64_t start = 0;
        for (std::size_t i = 0; i < std::size(m.segments); ++i) {
            const std::uint64_t key = as_region(mine).at(start).key;
            // Ours to choose, or the provider's, which is not asked for one.
            CHECK(key == (own_keys ? 71 + i : p.asked[i].requested_key));
            CHECK((p.asked[i].requested_key == 0) == own_keys);
            start += m.segments[i].length;
        }
    }
    p.refuse_bind = true;
    const auto refused = p.registrar.make(m.segments, Access::read_write, MemoryKind::host, 0);
    CHECK(refused.status() == Status::invalid_arg);
    // Nor when there is none any more.
    p.refuse_bind = false;
    p.registrar.bind_to(nullptr);
    const auto late = p.registrar.make(m.segments, Access::read_write, MemoryKind::host, 0);
    CHECK(late.status() == Status::opnotsupported);
}

TEST_CASE("what goes through buffers is registered where the provider wants that",
          "[ofi][memory]") {
    std::byte buffer[64];
    const bool local = GENERATE(false, true);
    Provider p((local ? FI_MR_LOCAL : 0) | FI_MR_ENDPOINT, 8);
    // With their endpoint, whether or not that is the one of the user's memory.
    const auto mr = p.registrar.local(buffer, sizeof buffer, p.endpoint);
    REQUIRE(mr);
    CHECK((*mr != nullptr) == local);
    CHECK(p.registrations == (local ? 1 : 0));
    if (local) {
        CHECK(fi_mr_key(mr->get()) != FI_KEY_NOTAVAIL);
        // Nobody else reaches it.
        CHECK(p.asked[0].access == (FI_SEND | FI_RECV | FI_READ | FI_WRITE));
    }
}

TEST_CASE("access rights are those of both sides' operations", "[ofi][memory]") {
    Provider p(0, 8);
    Memory m;
    const std::pair<Access, std::uint64_t> rights[] = {
        {Access::read, FI_WRITE | FI_REMOTE_READ},
        {Access::write, FI_READ | FI_REMOTE_WRITE},
        {Access::read_write, FI_WRITE | FI_REMOTE_READ | FI_READ | FI_REMOTE_WRITE}};
    for (const auto& [access, expected] : rights) {
        REQUIRE(p.registrar.make(m.segments, access, MemoryKind::host, 0));
        CHECK(p.asked.back().access == expected);
    }
}

TEST_CASE("keys of the provider's own are mapped where they are used", "[ofi][memory]") {
    Provider p(FI_MR_RAW | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR, 48);
    p.real_key = 40;
    Memory m;
    const auto bytes = told(p, m);
    {
        const auto theirs = p.registrar.decode(bytes, m.length);
        REQUIRE(theirs);
        CHECK(p.mapped.size() == 3);
        CHECK(told_again(**theirs) == bytes);
        std::uint64_t start = 0;
        for (const Segment& s : m.segments) {
            const auto& part = as_region(theirs).at(start);
            const auto it = p.mapped.find(part.key);
            REQUIRE(it != p.mapped.end());
            CHECK(it->second.key == p.key_of(s.base));
            CHECK(it->second.base == (reinterpret_cast<std::uintptr_t>(s.base) ^ 1));
            CHECK(part.address == reinterpret_cast<std::uintptr_t>(s.base));
            start += s.length;
        }
    }
    CHECK(p.mapped.empty());
}

TEST_CASE("keys that are too long are refused where they are made", "[ofi][memory]") {
    // Longer than the provider says, than any may be; none at all.
    const auto [says, has] = GENERATE(std::pair<std::size_t, std::size_t>{16, 17},
                                      std::pair<std::size_t, std::size_t>{5000, 5000},
                                      std::pair<std::size_t, std::size_t>{16, 0});
    Provider p(FI_MR_RAW, says);
    p.real_key = has;
    Memory m;
    const auto region = p.registrar.make(m.segments, Access::read, MemoryKind::host, 0);
    REQUIRE_FALSE(region);
    CHECK(region.status() == Status::opnotsupported);
}

TEST_CASE("a key that the provider refuses", "[ofi][memory]") {
    Provider p(FI_MR_RAW, 32);
    p.real_key = 32;
    Memory m;
    const auto bytes = told(p, m);
    p.refuse = 2;
    const auto region = p.registrar.decode(bytes, m.length);
    REQUIRE_FALSE(region);
    CHECK(region.status() == Status::protocol_error);
    CHECK(p.mappings == 3);
    CHECK(p.mapped.empty());  // those before it were given back
}

TEST_CASE("hostile descriptions of memory", "[ofi][memory]") {
    const bool raw = GENERATE(false, true);
    Provider p(raw ? FI_MR_RAW : 0, raw ? 40 : 8);
    p.real_key = 40;
    Memory m;
    const auto good = told(p, m);

    SECTION("cut off, or longer") {
        for (std::size_t size = 0; size < good.size(); ++size) {
            CHECK_FALSE(p.registrar.decode(std::span(good).first(size), m.length));
        }
        auto longer = good;
        longer.push_back(std::byte{0});
        CHECK_FALSE(p.registrar.decode(longer, m.length));
    }
    SECTION("for another length") {
        for (const std::uint64_t length :
             {std::uint64_t{0}, m.length - 1, m.length + 1, UINT64_MAX}) {
            CHECK_FALSE(p.registrar.decode(good, length));
        }
    }
    SECTION("of keys of the other kind") {
        Provider other(raw ? 0 : FI_MR_RAW, 40);
        const auto region = other.registrar.decode(good, m.length);
        REQUIRE_FALSE(region);
        CHECK(region.status() == Status::protocol_error);
        CHECK(other.mappings == 0);
    }
    SECTION("no segments, or too many") {
        for (const unsigned count : {0U, 1U, 2U, 4U, 257U, 65535U}) {
            auto bytes = good;
            bytes[0] = static_cast<std::byte>(count);
            bytes[1] = static_cast<std::byte>(count >> 8);
            CHECK_FALSE(p.registrar.decode(bytes, m.length));
        }
    }
    SECTION("past the end of the address space") {
        auto bytes = good;
        std::memset(bytes.data() + 4 + 8, 0xff, 8);  // the first address
        CHECK_FALSE(p.registrar.decode(bytes, m.length));
    }
    SECTION("any byte changed") {
        for (std::size_t at = 0; at < good.size(); ++at) {
            for (const unsigned value : {0U, 1U, 0x7fU, 0x80U, 0xffU}) {
                auto bytes = good;
                bytes[at] = static_cast<std::byte>(value);
                // Its address and key may be others then, its lengths are those announced.
                if (const auto region = p.registrar.decode(bytes, m.length)) {
                    const auto& last = as_region(region).at(m.length - 1);
                    CHECK(last.start + last.length == m.length);
                }
            }
        }
    }
    SECTION("noise") {
        support::Random random(support::options().seed);
        for (int i = 0; i < 20000; ++i) {
            std::vector<std::byte> bytes(random.below(200));
            support::fill(bytes, random.next());
            if (bytes.size() >= 4 && random.below(4) != 0) {
                bytes[0] = static_cast<std::byte>(1 + random.below(3));
                bytes[1] = bytes[3] = std::byte{0};
                bytes[2] = static_cast<std::byte>(raw);
            }
            (void)p.registrar.decode(bytes, m.length);
        }
    }
    // Nothing that a provider was given is longer than its keys are.
    CHECK(p.longest <= 40);
}

TEST_CASE("a provider of libfabric with keys of its own", "[ofi][memory]") {
    // Its multi-rail provider joins two ways to this machine, and the keys of both: software. It
    // reads the variable when libfabric starts, which is here.
    setenv("FI_OFI_MRAIL_ADDR", "127.0.0.1,127.0.0.1", 1);
    const ofi::Info hints(fi_allocinfo());
    REQUIRE(hints != nullptr);
    hints->fabric_attr->prov_name = strdup("ofi_mrail");
    hints->caps = FI_MSG | FI_RMA;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_RAW;
    fi_info* list = nullptr;
    const int rc = fi_getinfo(ofi::kApi, nullptr, nullptr, 0, hints.get(), &list);
    const ofi::Info info(list);
    fid_fabric* f = nullptr;
    fid_domain* d = nullptr;
    if (rc != 0 || (info->domain_attr->mr_mode & FI_MR_RAW) == 0 ||
        fi_fabric(info->fabric_attr, &f, nullptr) != 0) {
        support::skip("this libfabric has no provider of raw keys that works here");
        return;
    }
    const ofi::Fabric fabric(f);
    REQUIRE(fi_domain(f, info.get(), &d, nullptr) == 0);
    const ofi::FabricDomain domain(d);
    Registrar registrar;
    registrar.open(d, *info);

    Memory m;
    const auto mine = [&] {
        // mrail_mr_close() (prov/mrail/src/mrail_domain.c of ofiwg/libfabric, 1.17 and later) does
        // not free the registration; no report of it is known.
        const LeaksBeside leaks;
        return registrar.make(m.segments, Access::read_write, MemoryKind::host, 0);
    }();
    REQUIRE(mine);
    std::vector<std::byte> bytes((*mine)->encode({}));
    (*mine)->encode(bytes);
    CHECK(bytes.size() > 3 * info->domain_attr->mr_key_size);
    const auto theirs = registrar.decode(bytes, m.length);
    REQUIRE(theirs);
    const auto& all = as_region(theirs);
    CHECK(all.at(0).length == sizeof m.first);
    CHECK(all.at(m.length - 1).length == sizeof m.third);
    CHECK(all.at(0).key != all.at(m.length - 1).key);  // mapped one by one
}
