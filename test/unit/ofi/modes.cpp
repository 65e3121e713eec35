// SPDX-License-Identifier: BSD-3-Clause
#include "modes.hpp"

#include <dlfcn.h>
#include <rdma/fabric.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/two_process.hpp"

namespace {

constexpr std::size_t kRawKey = 40;  // bytes
constexpr std::uint64_t kBaseMask = 0x5555;

int bits = 0;
bool keyed = false;
modes::Cards* cards = nullptr;
std::size_t message_limit = 0;
int real_mode = 0;
std::size_t real_key_size = 0;
std::size_t local_checks = 0;
std::size_t translations = 0;

struct Registration {
    fi_ops* theirs = nullptr;
    fi_ops ours{};
    std::uintptr_t base = 0;
    std::size_t length = 0;
    std::uint64_t key = 0;    // of the real provider
    std::uint64_t shown = 0;  // FI_MR_PROV_KEY: in its place
    bool enabled = false;
    bool bound = false;
};
std::map<fid_mr*, Registration> live;
std::map<std::uint64_t, std::uint64_t> mapped;  // numbers that raw keys were made, and real keys
std::uint64_t next_number = 0x4000;

bool wants(int bit) {
    return (bits & bit) != 0;
}

void set_key(fi_info& info, const std::string& key) {
    fi_domain_attr& domain = *info.domain_attr;
    std::free(domain.auth_key);
    domain.auth_key = nullptr;
    domain.auth_key_size = key.size();
    if (!key.empty()) {
        domain.auth_key = static_cast<std::uint8_t*>(std::malloc(key.size()));
        PARTY_REQUIRE(domain.auth_key != nullptr);
        std::memcpy(domain.auth_key, key.data(), key.size());
    }
}

// A card of the network, of which only the place is known.
struct Nic : fid_nic {
    explicit Nic(const fi_bus_attr& place_) : fid_nic{}, place(place_) {
        static fi_ops ops = [] {
            fi_ops table{};
            table.size = sizeof table;
            table.close = [](struct fid* nic) {
                delete reinterpret_cast<Nic*>(nic);
                return 0;
            };
            table.control = [](struct fid* nic, int command, void* out) {
                if (command != FI_DUP) {
                    return -FI_ENOSYS;
                }
                *static_cast<fid_nic**>(out) = new Nic(reinterpret_cast<Nic*>(nic)->place);
                return 0;
            };
            return table;
        }();
        fid.fclass = FI_CLASS_NIC;
        fid.ops = &ops;
        bus_attr = &place;
    }
    fi_bus_attr place;
};

fi_info* info_of(const fi_info& hints, const modes::Card& card) {
    fi_bus_attr place{};
    place.bus_type = FI_BUS_PCI;
    place.attr.pci = {card.domain, card.bus, card.device, card.function};
    fi_info* info = fi_dupinfo(&hints);
    info->fabric_attr->name = strdup(card.fabric.c_str());
    info->ep_attr->max_msg_size = std::size_t{1} << 30;
    info->nic = new Nic(place);
    return info;
}

template <typename Ops>
Ops& copy_of(Ops*& place, Ops*& theirs) {
    theirs = place;
    // Ends with the process; a leak check finds it when the object is gone.
    static std::vector<std::unique_ptr<Ops>> all;
    place = all.emplace_back(std::make_unique<Ops>(*place)).get();
    return *place;
}

struct Domain {
    fi_ops* ops;
    fi_ops_mr* mr;
};
std::map<fid_domain*, Domain> domains;

struct Endpoint {
    fi_ops_msg* msg;
    fi_ops_rma* rma;
};
std::map<fid_ep*, Endpoint> endpoints;

// --- registrations

fid_mr* mr_of(fid* f) {
    return reinterpret_cast<fid_mr*>(f);
}

// What it has for the plugin to see, when it may be used.
void show(fid_mr* mr, Registration& r) {
    r.enabled = true;
    mr->key = wants(FI_MR_RAW) ? FI_KEY_NOTAVAIL : wants(FI_MR_PROV_KEY) ? r.shown : r.key;
}

std::array<std::uint8_t, kRawKey> raw_key(const Registration& r) {
    std::array<std::uint8_t, kRawKey> key;
    for (std::size_t i = 0; i < key.size(); ++i) {
        key[i] = static_cast<std::uint8_t>(i * 7 + 1);
    }
    std::memcpy(key.data() + 11, &r.key, sizeof r.key);
    return key;
}

int mr_close(fid* f) {
    const auto it = live.find(mr_of(f));
    f->ops = it->second.theirs;
    mr_of(f)->key = it->second.key;
    live.erase(it);
    return f->ops->close(f);
}

int mr_bind(fid* f, fid* to, std::uint64_t flags) {
    CHECK(wants(FI_MR_ENDPOINT));
    CHECK(flags == 0);
    CHECK(endpoints.contains(reinterpret_cast<fid_ep*>(to)));
    live.at(mr_of(f)).bound = true;
    return 0;
}

int mr_control(fid* f, int command, void* argument) {
    Registration& r = live.at(mr_of(f));
    if (command == FI_ENABLE) {
        CHECK(r.bound);
        show(mr_of(f), r);
        return 0;
    }
    if (command != FI_GET_RAW_MR || !wants(FI_MR_RAW) || !r.enabled) {
        return -FI_EINVAL;
    }
    auto& raw = *static_cast<struct fi_mr_raw_attr*>(argument);
    const auto key = raw_key(r);
    if (*raw.key_size < key.size()) {
        *raw.key_size = key.size();
        return -FI_ETOOSMALL;
    }
    *raw.key_size = key.size();
    std::copy(key.begin(), key.end(), raw.raw_key);
    *raw.base_addr = r.base ^ kBaseMask;
    return 0;
}

int regattr(fid* domain, const fi_mr_attr* attributes, std::uint64_t flags, fid_mr** made) {
    fi_mr_attr real = *attributes;
    if (wants(FI_MR_PROV_KEY)) {
        CHECK(attributes->requested_key == 0);
        real.requested_key = 0x10000 + next_number++;
    }
    CHECK(attributes->iov_count == 1);
    const int rc =
        domains.at(reinterpret_cast<fid_domain*>(domain)).mr->regattr(domain, &real, flags, made);
    if (rc != 0) {
        return rc;
    }
    Registration& r = live[*made];
    r.theirs = (*made)->fid.ops;
    r.ours = *r.theirs;
    r.ours.close = mr_close;
    r.ours.bind = mr_bind;
    r.ours.control = mr_control;
    r.base = reinterpret_cast<std::uintptr_t>(attributes->mr_iov->iov_base);
    r.length = attributes->mr_iov->iov_len;
    r.key = (*made)->key;
    r.shown = next_number++;
    (*made)->fid.ops = &r.ours;
    if (wants(FI_MR_ENDPOINT)) {
        (*made)->key = FI_KEY_NOTAVAIL;
    } else {
        show(*made, r);
    }
    return 0;
}

int domain_control(fid* f, int command, void* argument) {
    if (command == FI_UNMAP_KEY) {
        CHECK(mapped.erase(*static_cast<std::uint64_t*>(argument)) == 1);
        return 0;
    }
    if (command != FI_MAP_RAW_MR) {
        return domains.at(reinterpret_cast<fid_domain*>(f)).ops->control(f, command, argument);
    }
    CHECK(wants(FI_MR_RAW));
    const auto& raw = *static_cast<struct fi_mr_map_raw*>(argument);
    for (const auto& [mr, r] : live) {
        const auto key = raw_key(r);
        if (raw.key_size == key.size() && std::equal(key.begin(), key.end(), raw.raw_key)) {
            CHECK(raw.base_addr == (r.base ^ kBaseMask));
            mapped[*raw.key = next_number++] = r.key;
            return 0;
        }
    }
    return -FI_EINVAL;
}

// --- what is posted

void check_local(const void* memory, std::size_t size, const void* descriptor) {
    if (!wants(FI_MR_LOCAL)) {
        return;
    }
    ++local_checks;
    const auto at = reinterpret_cast<std::uintptr_t>(memory);
    CHECK(std::any_of(live.begin(), live.end(), [&](const auto& entry) {
        const auto& [mr, r] = entry;
        return r.enabled && mr->mem_desc == descriptor && at >= r.base &&
               at + size <= r.base + r.length;
    }));
}

// As the real provider takes it. Null: nothing has that key.
const Registration* to_real(fi_rma_iov& there) {
    std::uint64_t key = there.key;
    if (wants(FI_MR_RAW)) {
        const auto it = mapped.find(key);
        if (it == mapped.end()) {
            return nullptr;
        }
        key = it->second;
    }
    const bool shown = !wants(FI_MR_RAW) && wants(FI_MR_PROV_KEY);
    for (const auto& [mr, r] : live) {
        if ((shown ? r.shown : r.key) == key && r.enabled) {
            there.key = r.key;
            if (wants(FI_MR_VIRT_ADDR) && (real_mode & FI_MR_VIRT_ADDR) == 0) {
                there.addr -= r.base;
            }
            return &r;
        }
    }
    return nullptr;
}

template <typename Post>
ssize_t transfer(fid_ep* ep, const fi_msg_rma* message, std::uint64_t flags, Post post) {
    fi_msg_rma real = *message;
    fi_rma_iov there = *message->rma_iov;
    real.rma_iov = &there;
    if ((flags & FI_INJECT) == 0) {
        check_local(message->msg_iov->iov_base, message->msg_iov->iov_len, message->desc[0]);
    }
    CHECK(to_real(there) != nullptr);
    ++translations;
    return post(ep, &real, flags);
}

ssize_t readmsg(fid_ep* ep, const fi_msg_rma* message, std::uint64_t flags) {
    return transfer(ep, message, flags, endpoints.at(ep).rma->readmsg);
}
ssize_t writemsg(fid_ep* ep, const fi_msg_rma* message, std::uint64_t flags) {
    return transfer(ep, message, flags, endpoints.at(ep).rma->writemsg);
}
ssize_t recvmsg(fid_ep* ep, const fi_msg* message, std::uint64_t flags) {
    check_local(message->msg_iov->iov_base, message->msg_iov->iov_len, message->desc[0]);
    return endpoints.at(ep).msg->recvmsg(ep, message, flags);
}
ssize_t send(fid_ep* ep, const void* memory, std::size_t size, void* descriptor, fi_addr_t to,
             void* context) {
    check_local(memory, size, descriptor);
    return endpoints.at(ep).msg->send(ep, memory, size, descriptor, to, context);
}

}  // namespace

namespace modes {

void want(int wanted) {
    bits = wanted;
    local_checks = translations = 0;
}
int wanted() {
    return bits;
}
void limit_messages(std::size_t bytes) {
    message_limit = bytes;
}
std::size_t registrations() {
    return live.size();
}
std::size_t mapped_keys() {
    return mapped.size();
}
std::size_t checked() {
    return local_checks;
}
std::size_t translated() {
    return translations;
}

Keyed::Keyed() {
    keyed = true;
}
Keyed::~Keyed() {
    keyed = false;
}
std::vector<Wish>& asked() {
    static std::vector<Wish> all;
    return all;
}
std::vector<Wish>& opened() {
    static std::vector<Wish> all;
    return all;
}

Cards::Cards(std::string provider_, std::vector<Card> list_)
    : provider(std::move(provider_)), list(std::move(list_)) {
    cards = this;
}
Cards::~Cards() {
    cards = nullptr;
}
bool is_card(const fi_fabric_attr& fabric) {
    if (cards == nullptr || fabric.prov_name == nullptr || fabric.prov_name != cards->provider) {
        return false;
    }
    cards->tried.emplace_back(fabric.name == nullptr ? "" : fabric.name);
    return true;
}

Wish wish_of(const fi_info& info) {
    const fi_domain_attr& domain = *info.domain_attr;
    return {.threading = domain.threading,
            .traffic_class = info.tx_attr->tclass,
            .key = std::string(reinterpret_cast<const char*>(domain.auth_key),
                               domain.auth_key == nullptr ? 0 : domain.auth_key_size)};
}

bool stands_between() {
    return bits != 0 || keyed;
}

fi_info* real_info(const fi_info* info) {
    fi_info* copy = fi_dupinfo(info);
    if (bits != 0) {
        copy->domain_attr->mr_mode = real_mode;
        copy->domain_attr->mr_key_size = real_key_size;
    }
    if (keyed) {
        set_key(*copy, {});
    }
    return copy;
}

void watch_domain(fid_domain* domain) {
    Domain d{};
    copy_of(domain->fid.ops, d.ops).control = domain_control;
    copy_of(domain->mr, d.mr).regattr = regattr;
    domains[domain] = d;
}

void watch_endpoint(fid_ep* endpoint) {
    Endpoint e{};
    fi_ops_msg& msg = copy_of(endpoint->msg, e.msg);
    msg.recvmsg = recvmsg;
    msg.send = send;
    fi_ops_rma& rma = copy_of(endpoint->rma, e.rma);
    rma.readmsg = readmsg;
    rma.writemsg = writemsg;
    endpoints[endpoint] = e;
}

}  // namespace modes

extern "C" int fi_getinfo(std::uint32_t version, const char* node, const char* service,
                          std::uint64_t flags, const fi_info* hints, fi_info** info) {
    static const auto real =
        reinterpret_cast<decltype(&fi_getinfo)>(dlsym(RTLD_NEXT, "fi_getinfo"));
    static thread_local int depth = 0;  // libfabric asks itself, too
    const bool ours = depth == 0 && hints != nullptr && hints->ep_attr != nullptr &&
                      hints->ep_attr->type == FI_EP_RDM && hints->domain_attr != nullptr;
    std::string key;
    fi_info* without = nullptr;  // key
    if (ours) {
        modes::asked().push_back(modes::wish_of(*hints));
        key = keyed ? modes::asked().back().key : std::string();
    }
    if (!key.empty()) {
        without = fi_dupinfo(hints);
        set_key(*without, {});
    }
    if (ours && cards != nullptr && hints->fabric_attr != nullptr &&
        hints->fabric_attr->prov_name != nullptr &&
        hints->fabric_attr->prov_name == cards->provider) {
        fi_info** next = info;
        for (const modes::Card& card : cards->list) {
            *next = info_of(*hints, card);
            next = &(*next)->next;
        }
        return 0;
    }
    ++depth;
    const int rc = real(version, node, service, flags, without != nullptr ? without : hints, info);
    --depth;
    fi_freeinfo(without);
    for (fi_info* i = rc == 0 && !key.empty() ? *info : nullptr; i != nullptr; i = i->next) {
        set_key(*i, key);
    }
    for (fi_info* i = rc == 0 && ours && message_limit != 0 ? *info : nullptr; i != nullptr;
         i = i->next) {
        i->ep_attr->max_msg_size = message_limit;
    }
    if (rc == 0 && ours && bits != 0) {
        CHECK((hints->domain_attr->mr_mode & bits) == bits);  // the plugin says that it can
        for (fi_info* i = *info; i != nullptr; i = i->next) {
            real_mode = i->domain_attr->mr_mode;
            real_key_size = i->domain_attr->mr_key_size;
            i->domain_attr->mr_mode |= bits;
            if (wants(FI_MR_RAW)) {
                i->domain_attr->mr_key_size = kRawKey;
            }
        }
    }
    return rc;
}
