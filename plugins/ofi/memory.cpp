// SPDX-License-Identifier: BSD-3-Clause
#include "plugins/ofi/memory.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <rdma/fi_endpoint.h>

#include "na/session/secret.hpp"
#include "na/util/bytes.hpp"

namespace na::ofi {
namespace {

constexpr std::size_t kHeader = 4;
constexpr std::size_t kNumberPart = 24;
constexpr std::size_t kRawPart = 26;  // and the key
constexpr int kKeyTries = 32;

Error malformed() {
    return Error{Status::protocol_error, "malformed memory descriptor"};
}

}  // namespace

std::size_t Region::encode(std::span<std::byte> out) const {
    const bool raw = !raw_keys_.empty();
    std::size_t size = kHeader + parts_.size() * (raw ? kRawPart : kNumberPart);
    for (const RawKey& k : raw_keys_) {
        size += k.bytes.size();
    }
    if (out.size() < size) {
        return size;
    }
    util::ByteWriter w(out);
    w.integer(static_cast<std::uint16_t>(parts_.size()));
    w.integer(static_cast<std::uint8_t>(raw));
    w.integer(std::uint8_t{0});
    for (std::size_t i = 0; i < parts_.size(); ++i) {
        const Part& p = parts_[i];
        w.integer(p.length);
        w.integer(p.told);
        if (!raw) {
            w.integer(p.key);
            continue;
        }
        const RawKey& k = raw_keys_[i];
        w.integer(k.base);
        w.integer(static_cast<std::uint16_t>(k.bytes.size()));
        w.bytes(k.bytes.data(), k.bytes.size());
    }
    return size;
}

Result<std::unique_ptr<plugin::Region>> Registrar::decode(std::span<const std::byte> in,
                                                          std::uint64_t length) const {
    util::ByteReader r(in);
    const auto count = r.integer<std::uint16_t>();
    const auto form = r.integer<std::uint8_t>();
    const auto reserved = r.integer<std::uint8_t>();
    if (!r.good() || count == 0 || count > kMaxSegments || form > 1 || reserved != 0) {
        return malformed();
    }
    if ((form == 1) != raw()) {
        return Error{Status::protocol_error,
                     "the keys in the memory descriptor are not of the kind that the provider here "
                     "has: both sides need the same provider"};
    }
    auto region = std::make_unique<Region>();
    region->parts_.reserve(count);
    std::uint64_t sum = 0;
    for (unsigned i = 0; i < count; ++i) {
        Region::Part p;
        p.length = r.integer<std::uint64_t>();
        p.address = r.integer<std::uint64_t>();
        p.told = p.address;
        p.start = sum;
        // (Nothing is asked of the provider for a descriptor that is wrong so far.)
        if (!r.good() || p.length == 0 || p.length > length - sum ||
            p.address > UINT64_MAX - p.length) {
            return malformed();
        }
        if (Error error = read_key(r, *region, p); !ok(error.status)) {
            return error;
        }
        sum += p.length;
        region->parts_.push_back(p);
    }
    if (!r.good() || r.left() != 0 || sum != length) {
        return malformed();
    }
    return std::unique_ptr<plugin::Region>(std::move(region));
}

Error Registrar::read_key(util::ByteReader& r, Region& region, Region::Part& part) const {
    if (!raw()) {
        part.key = r.integer<std::uint64_t>();
        return r.good() ? Error{Status::success, {}} : malformed();
    }
    const auto base = r.integer<std::uint64_t>();
    const auto size = r.integer<std::uint16_t>();
    const auto bytes = r.bytes(size);
    if (!r.good() || size == 0 || size > key_bytes_) {
        return malformed();
    }
    // The provider takes it as not constant.
    std::uint8_t key[kMaxRawKey];
    std::memcpy(key, bytes.data(), size);
    if (const int rc = fi_mr_map_raw(domain_, base, key, size, &part.key, 0); rc != 0) {
        return Error{
            Status::protocol_error,
            fmt::format("the provider refuses a memory descriptor's key: {}", fi_strerror(-rc))};
    }
    MappedKey owner(domain_, part.key);
    region.mapped_.push_back(std::move(owner));
    const auto* told = reinterpret_cast<const std::uint8_t*>(bytes.data());
    region.raw_keys_.push_back({.base = base, .bytes = {told, told + size}});
    return Error{Status::success, {}};
}

const Region::Part& Region::at(std::uint64_t offset) const noexcept {
    if (parts_.size() == 1) [[likely]] {
        return parts_.front();
    }
    const auto behind =
        std::upper_bound(parts_.begin(), parts_.end(), offset,
                         [](std::uint64_t o, const Part& p) { return o < p.start; });
    return *std::prev(behind);
}

void Registrar::open(fid_domain* domain, const fi_info& info) noexcept {
    domain_ = domain;
    mode_ = info.domain_attr->mr_mode;
    key_bits_ = std::min<std::size_t>(info.domain_attr->mr_key_size, 8) * 8;
    key_bytes_ = std::min(info.domain_attr->mr_key_size, kMaxRawKey);
}

namespace {

// The answer to a kind of memory that libfabric was not built for, or has no device of.
bool is_unknown(int rc) noexcept {
    return rc == -FI_ENOSYS || rc == -FI_EOPNOTSUPP;
}

// Some providers say that they take device memory whatever libfabric was built with.
std::string_view of_what(MemoryKind kind) noexcept {
    switch (kind) {
        case MemoryKind::cuda:
            return " of CUDA memory (libfabric has to be built with CUDA, and find a device)";
        case MemoryKind::rocm:
            return " of ROCm memory (libfabric has to be built with ROCm, and find a device)";
        case MemoryKind::ze:
            return " of Level Zero memory (libfabric has to be built with it, and find a device)";
        case MemoryKind::host:
        case MemoryKind::unknown:
            break;
    }
    return "";
}

}  // namespace

Result<FabricMr> Registrar::register_one(void* memory, std::size_t bytes, std::uint64_t access,
                                         MemoryKind kind, std::uint64_t device,
                                         fid_ep* endpoint) const {
    iovec vector{memory, bytes};
    fi_mr_attr attr{};
    attr.mr_iov = &vector;
    attr.iov_count = 1;
    attr.access = access;
    switch (kind) {
        case MemoryKind::cuda:
            attr.iface = FI_HMEM_CUDA;
            attr.device.cuda = static_cast<int>(device);
            break;
        case MemoryKind::rocm:
            attr.iface = FI_HMEM_ROCR;
            break;
        case MemoryKind::ze:
            attr.iface = FI_HMEM_ZE;
            attr.device.ze = static_cast<int>(device);
            break;
        case MemoryKind::host:
        case MemoryKind::unknown:
            attr.iface = FI_HMEM_SYSTEM;
            break;
    }
    const std::uint64_t mask = key_bits_ >= 64 ? UINT64_MAX : (std::uint64_t{1} << key_bits_) - 1;
    fid_mr* mr = nullptr;
    int rc = 0;
    // Where the key is ours to choose it is random: nobody reaches memory whose descriptor he was
    // not given.
    for (int i = 0; i < kKeyTries; ++i) {
        attr.requested_key = (mode_ & FI_MR_PROV_KEY) != 0 ? 0 : session::random_number() & mask;
        rc = fi_mr_regattr(domain_, &attr, 0, &mr);
        if (rc != -FI_ENOKEY) {
            break;
        }
    }
    if (rc != 0) {
        return failure(
            rc, fmt::format("register {} bytes{}", bytes, is_unknown(rc) ? of_what(kind) : ""));
    }
    FabricMr owner(mr);
    if ((mode_ & FI_MR_ENDPOINT) != 0 && endpoint != nullptr) {
        rc = fi_mr_bind(mr, &endpoint->fid, 0);
        if (rc == 0) {
            rc = fi_mr_enable(mr);
        }
        if (rc != 0) {
            return failure(rc, "bind memory to the endpoint");
        }
    }
    return owner;
}

Result<Region::RawKey> Registrar::raw_key(fid_mr& mr) const {
    Region::RawKey key;
    key.bytes.resize(key_bytes_);
    std::size_t size = key.bytes.size();
    const int rc = fi_mr_raw_attr(&mr, &key.base, key.bytes.data(), &size, 0);
    if (rc == -FI_ETOOSMALL || (rc == 0 && (size == 0 || size > key_bytes_))) {
        return Error{Status::opnotsupported,
                     fmt::format("the provider's keys have {} bytes: from 1 to {} are supported",
                                 size, key_bytes_)};
    }
    if (rc != 0) {
        return failure(rc, "get the key of a memory registration");
    }
    key.bytes.resize(size);
    return key;
}

bool Registrar::knows_a_device() const noexcept {
    alignas(4096) static std::byte page[4096];
    for (const fi_hmem_iface kind : {FI_HMEM_CUDA, FI_HMEM_ROCR, FI_HMEM_ZE}) {
        iovec vector{page, sizeof page};
        fi_mr_attr attr{};
        attr.mr_iov = &vector;
        attr.iov_count = 1;
        attr.access = FI_READ | FI_WRITE;
        attr.iface = kind;
        fid_mr* mr = nullptr;
        const int rc = fi_mr_regattr(domain_, &attr, 0, &mr);
        if (rc == 0) {
            fi_close(&mr->fid);
        }
        if (!is_unknown(rc)) {
            return true;
        }
    }
    return false;
}

Result<FabricMr> Registrar::local(void* memory, std::size_t bytes, fid_ep& endpoint) const {
    if (!local_needed()) {
        return FabricMr{};
    }
    return register_one(memory, bytes, FI_SEND | FI_RECV | FI_READ | FI_WRITE, MemoryKind::host, 0,
                        &endpoint);
}

Result<std::unique_ptr<plugin::Region>> Registrar::make(std::span<const Segment> segments,
                                                        Access access, MemoryKind kind,
                                                        std::uint64_t device) const {
    // Readable: source of puts from here, target of gets from there; writable likewise.
    std::uint64_t rights = 0;
    if (allows(access, Access::read)) {
        rights |= FI_WRITE | FI_REMOTE_READ;
    }
    if (allows(access, Access::write)) {
        rights |= FI_READ | FI_REMOTE_WRITE;
    }
    auto region = std::make_unique<Region>();
    region->host_ = kind == MemoryKind::host;
    // The endpoint must not close meanwhile.
    std::unique_lock bound(binding_, std::defer_lock);
    fid_ep* endpoint = nullptr;
    if ((mode_ & FI_MR_ENDPOINT) != 0) {
        bound.lock();
        endpoint = endpoint_;
        if (endpoint == nullptr) {
            return Error{Status::opnotsupported,
                         "this provider binds memory to the endpoint of context 0, which is "
                         "closed: open that context first"};
        }
    }
    std::uint64_t sum = 0;
    for (const Segment& s : segments) {
        auto mr = register_one(s.base, s.length, rights, kind, device, endpoint);
        if (!mr) {
            return std::move(mr).error();
        }
        Region::Part p;
        p.length = s.length;
        p.start = sum;
        p.address = reinterpret_cast<std::uintptr_t>(s.base);
        p.told = (mode_ & FI_MR_VIRT_ADDR) != 0 ? p.address : 0;
        p.descriptor = fi_mr_desc(mr->get());
        sum += s.length;
        if (raw()) {
            auto key = raw_key(**mr);
            if (!key) {
                return std::move(key).error();
            }
            region->raw_keys_.push_back(std::move(*key));
        } else if ((p.key = fi_mr_key(mr->get())) == FI_KEY_NOTAVAIL) {
            return Error{Status::opnotsupported,
                         "the provider has no key for a memory registration"};
        }
        region->registrations_.push_back(std::move(*mr));
        region->parts_.push_back(p);
    }
    return std::unique_ptr<plugin::Region>(std::move(region));
}

}  // namespace na::ofi
