// SPDX-License-Identifier: BSD-3-Clause
#include "plugins/ofi/memory.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <rdma/fi_endpoint.h>

#include "na/session/secret.hpp"
#include "na/util/bytes.hpp"

namespace na::ofi {
namespace {

constexpr std::size_t kPartBytes = 24;
constexpr int kKeyTries = 32;

}  // namespace

std::size_t Region::encode(std::span<std::byte> out) const {
    const std::size_t size = sizeof(std::uint32_t) + parts_.size() * kPartBytes;
    if (out.size() >= size) {
        util::ByteWriter w(out);
        w.integer(static_cast<std::uint32_t>(parts_.size()));
        for (const Part& p : parts_) {
            w.integer(p.length);
            w.integer(p.told);
            w.integer(p.key);
        }
    }
    return size;
}

Result<std::unique_ptr<plugin::Region>> Region::decode(std::span<const std::byte> in,
                                                       std::uint64_t length) {
    util::ByteReader r(in);
    const auto count = r.integer<std::uint32_t>();
    if (count == 0 || count > kMaxSegments || r.left() != count * kPartBytes) {
        return Error{Status::protocol_error, "malformed memory descriptor"};
    }
    auto region = std::make_unique<Region>();
    std::uint64_t sum = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
        Part p;
        p.length = r.integer<std::uint64_t>();
        p.address = r.integer<std::uint64_t>();
        p.key = r.integer<std::uint64_t>();
        p.start = sum;
        if (p.length == 0 || p.length > length - sum || p.address > UINT64_MAX - p.length) {
            return Error{Status::protocol_error, "malformed memory descriptor"};
        }
        sum += p.length;
        region->parts_.push_back(p);
    }
    if (sum != length) {
        return Error{Status::protocol_error, "malformed memory descriptor"};
    }
    return std::unique_ptr<plugin::Region>(std::move(region));
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
    key_bits_ = std::min<std::size_t>(info.domain_attr->mr_key_size * 8, 64);
}

Result<FabricMr> Registrar::register_one(void* memory, std::size_t bytes, std::uint64_t access,
                                         MemoryKind kind, std::uint64_t device) const {
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
        return failure(rc, fmt::format("register {} bytes", bytes));
    }
    FabricMr owner(mr);
    if ((mode_ & FI_MR_ENDPOINT) != 0 && endpoint_ != nullptr) {
        rc = fi_mr_bind(mr, &endpoint_->fid, 0);
        if (rc == 0) {
            rc = fi_mr_enable(mr);
        }
        if (rc != 0) {
            return failure(rc, "bind memory to the endpoint");
        }
    }
    return owner;
}

Result<FabricMr> Registrar::local(void* memory, std::size_t bytes) const {
    if (!local_needed()) {
        return FabricMr{};
    }
    return register_one(memory, bytes, FI_SEND | FI_RECV | FI_READ | FI_WRITE, MemoryKind::host, 0);
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
    std::uint64_t sum = 0;
    for (const Segment& s : segments) {
        auto mr = register_one(s.base, s.length, rights, kind, device);
        if (!mr) {
            return std::move(mr).error();
        }
        Region::Part p;
        p.length = s.length;
        p.start = sum;
        p.address = reinterpret_cast<std::uintptr_t>(s.base);
        p.told = (mode_ & FI_MR_VIRT_ADDR) != 0 ? p.address : 0;
        p.key = fi_mr_key(mr->get());
        p.descriptor = fi_mr_desc(mr->get());
        sum += s.length;
        if (p.key == FI_KEY_NOTAVAIL) {
            return Error{Status::opnotsupported,
                         "the provider's keys are longer than 64 bits (FI_MR_RAW)"};
        }
        region->registrations_.push_back(std::move(*mr));
        region->parts_.push_back(p);
    }
    return std::unique_ptr<plugin::Region>(std::move(region));
}

}  // namespace na::ofi
