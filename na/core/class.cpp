// SPDX-License-Identifier: BSD-3-Clause
#include "na/core/class.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include <sys/mman.h>

#include <fmt/format.h>

#include "na/core/context.hpp"
#include "na/plugin_table.hpp"
#include "na/util/bytes.hpp"
#include "na/util/config.hpp"
#include "na/util/immortal.hpp"
#include "na/util/log.hpp"
#include "na/util/quiet_signal.hpp"
#include "na/util/random.hpp"
#include "na/util/uri.hpp"

namespace na::inline impl {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kScratchAlignment = 16;

std::size_t round_up(std::size_t n, std::size_t to) noexcept {
    return (n + to - 1) / to * to;
}

// Every class of the process, for dump_counters().
struct Classes {
    std::mutex mutex;
    std::vector<Class*> list;
};
Classes& classes() noexcept {
    static util::Immortal<Classes> c;  // classes may be closed by static destructors
    return c.get();
}

void* allocate_pages(std::size_t bytes) noexcept {
    if (bytes == 0 || bytes > PTRDIFF_MAX - kPage) {
        return nullptr;
    }
    void* memory = std::aligned_alloc(kPage, round_up(bytes, kPage));
    if (memory != nullptr) {
        std::memset(memory, 0, bytes);
    }
    return memory;
}

// As the kernel gives them: zeros that take no memory until they are touched.
void* map_pages(std::size_t bytes) noexcept {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? nullptr : memory;
}

// An option that a transport cannot honour fails here, for all transports alike: a server that
// opened without the key that it asked for would serve everybody.
Error check_effects(std::string_view name, const InitInfo& asked, const plugin::Caps& caps) {
    const auto refused = [&](std::string_view option, std::string_view why) {
        return Error{
            Status::opnotsupported,
            fmt::format("{} cannot honour {} of na_init_info here: {}", name, option, why)};
    };
    if (!asked.auth_key.empty() && !caps.takes_auth_key) {
        return refused("auth_key",
                       "it has no keys, and would admit everybody. Leave auth_key out, or use a "
                       "fabric that has keys (ofi+cxi)");
    }
    if (!asked.ip_subnet.empty() && !caps.takes_ip_subnet) {
        return refused("ip_subnet", "it has no IP addresses. Leave ip_subnet out");
    }
    if ((asked.address_format == AddressFormat::ipv4 ||
         asked.address_format == AddressFormat::ipv6) &&
        !caps.takes_ip_format) {
        return refused("addr_format",
                       "it has no IP addresses. Leave addr_format at NA_ADDR_UNSPEC or "
                       "NA_ADDR_NATIVE");
    }
    if (asked.device_memory && !caps.device_memory) {
        return refused("request_mem_device",
                       "it moves host memory only. Leave request_mem_device false, and copy "
                       "memory of devices through host memory");
    }
    return Error{Status::success, {}};
}

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kMaps = false;  // it watches what comes from the heap
#else
constexpr bool kMaps = true;
#endif

}  // namespace

Class::Class(std::unique_ptr<plugin::Domain> domain, std::string class_name, std::string protocol,
             bool listen, const InitInfo& info)
    : domain_(std::move(domain)),
      caps_(domain_->caps()),
      info_(info),
      class_name_(std::move(class_name)),
      protocol_(std::move(protocol)),
      wire_(class_name_ + "+" + (caps_.wire.empty() ? caps_.protocol : caps_.wire)),
      listen_(listen),
      addresses_(*this, threaded(), config::number(config::kMaxAddresses)) {
    const std::lock_guard guard(classes().mutex);
    classes().list.push_back(this);
}

Result<std::unique_ptr<Class>> Class::open(std::string_view info_string, bool listen,
                                           const InitInfo& info) {
    auto uri = util::parse_uri(info_string);
    if (!uri) {
        return std::move(uri).error();
    }
    if (info.address_format > AddressFormat::native) {
        return Error{Status::invalid_arg,
                     "na_init_info.addr_format is none of NA_ADDR_UNSPEC, NA_ADDR_IPV4, "
                     "NA_ADDR_IPV6 and NA_ADDR_NATIVE"};
    }
    if (info.traffic_class > TrafficClass::network_ctrl) {
        return Error{Status::invalid_arg,
                     "traffic_class is none of the values NA_TC_UNSPEC to NA_TC_NETWORK_CTRL"};
    }
    if (Error error = util::check_random(); !ok(error.status)) {
        return error;
    }
    auto standard = std::make_unique<util::OccupiedStandardFds>();
    auto plugin = find_plugin(uri->class_name, uri->protocol);
    if (!plugin) {
        return std::move(plugin).error();
    }
    plugin::OpenSpec spec{
        .protocol = uri->protocol, .host = uri->host, .listen = listen, .info = info};
    if (spec.info.max_contexts == 0) {
        spec.info.max_contexts = 1;
    }
    spec.contexts = std::max(spec.info.max_contexts, kContexts);
    auto domain = [&] {
        const util::QuietSignal quiet(SIGXFSZ);  // libfabric and UCX make segments
        return (*plugin)->open(spec);
    }();
    if (!domain) {
        return std::move(domain).error();
    }
    const std::string name = fmt::format("{}+{}", (*plugin)->class_name(), uri->protocol);
    if (Error error = check_effects(name, spec.info, (*domain)->caps()); !ok(error.status)) {
        return error;
    }
    if (spec.info.traffic_class != TrafficClass::unspec && !(*domain)->caps().takes_traffic_class) {
        NA_LOG_WARNING(cls, "{} has no traffic classes here: the one asked for is ignored", name);
    }
    std::unique_ptr<Class> cls(new Class(std::move(*domain), std::string((*plugin)->class_name()),
                                         std::move(uri->protocol), listen, spec.info));
    cls->standard_fds_ = std::move(standard);
    auto peer = cls->domain_->connect(cls->domain_->self_uri());
    if (!peer) {
        return std::move(peer).error();
    }
    auto self = cls->addresses_.intern(std::move(*peer));
    if (!self) {
        return std::move(self).error();
    }
    cls->self_ = self->release();
    cls->self_->self_ = true;
    NA_LOG_DEBUG(cls, "opened {}+{} as {}{}: messages of up to {} and {} bytes", cls->class_name(),
                 cls->protocol(), cls->self_->uri(), listen ? ", listening" : "",
                 cls->max_message(Lane::unexpected), cls->max_message(Lane::expected));
    return cls;
}

bool Class::has_context(std::uint8_t id) const {
    const std::lock_guard guard(contexts_mutex_);
    return contexts_[id] != nullptr;
}

Class::~Class() {
    if (self_ != nullptr) {
        NA_LOG_DEBUG(cls, "closed {}+{}", class_name_, protocol_);
    }
    {
        const std::lock_guard guard(classes().mutex);
        std::erase(classes().list, this);
    }
    if (self_ != nullptr) {
        self_->unref();
    }
    reap_slow();
}

Result<bool> Class::closable() const {
    {
        const std::lock_guard guard(contexts_mutex_);
        for (const Context* context : contexts_) {
            if (context != nullptr) {
                return Error{Status::busy, fmt::format("context {} still exists: destroy it first",
                                                       context->id())};
            }
        }
    }
    if (const std::size_t n = addresses_.referenced(); n > 1) {
        return Error{Status::busy,
                     fmt::format("{} addresses are still in use: free them first", n - 1)};
    }
    if (const std::uint32_t n = memories_.load(std::memory_order_acquire); n != 0) {
        return Error{Status::busy,
                     fmt::format("{} memory handles still exist: free them first", n)};
    }
    return true;
}

Result<AddressRef> Class::lookup(std::string_view name) {
    name = util::without_blanks(name);
    auto uri = util::parse_uri(name);
    if (!uri) {
        return std::move(uri).error();
    }
    if (!uri->class_name.empty()) {
        if (uri->class_name != class_name_) {
            return Error{Status::invalid_arg,
                         fmt::format("\"{}\" is an address of class {}, this is {}+{}", name,
                                     uri->class_name, class_name_, protocol())};
        }
        name.remove_prefix(uri->class_name.size() + 1);
    }
    auto peer = domain_->connect(name);
    if (!peer) {
        return std::move(peer).error();
    }
    auto address = intern(std::move(*peer));
    if (address) {
        NA_LOG_DEBUG(addr, "looked up {}", (*address)->uri());
    }
    return address;
}

Result<AddressRef> Class::intern(std::unique_ptr<plugin::Peer> peer) {
    if (addresses_.full()) [[unlikely]] {
        reap();  // addresses that nobody holds may be what fills the table: without contexts nobody
                 // else reaps
    }
    return addresses_.intern(std::move(peer));
}

Result<AddressRef> Class::decode_address(std::span<const std::byte> bytes) {
    util::ByteReader r(bytes);
    const auto size = r.integer<std::uint32_t>();
    const auto identity = r.bytes(size);
    if (!r.good()) {
        return Error{Status::overflow,
                     fmt::format("an address does not fit {} bytes", bytes.size())};
    }
    if (AddressRef known =
            addresses_.find({reinterpret_cast<const char*>(identity.data()), identity.size()})) {
        return known;
    }
    auto peer = domain_->decode_peer(identity);
    if (!peer) {
        return std::move(peer).error();
    }
    return intern(std::move(*peer));
}

Operation* Class::create_op(bool multi) {
    const std::size_t object = round_up(sizeof(Operation), kScratchAlignment);
    void* memory = ::operator new (object + caps_.op_scratch, std::align_val_t{64});
    auto* op = new (memory) Operation;
    if (caps_.op_scratch != 0) {
        op->scratch = static_cast<std::byte*>(memory) + object;
        std::memset(op->scratch, 0, caps_.op_scratch);
    }
    op->multi_ = multi;
    return op;
}

void Class::destroy_op(Operation* op) noexcept {
    if (op != nullptr) {
        op->~Operation();
        ::operator delete (static_cast<void*>(op), std::align_val_t{64});
    }
}

MessageBuffer Class::allocate_message(std::size_t size, Use use) {
    const bool mapped = kMaps && use == Use::lasting;
    MessageBuffer buffer{.data = mapped ? map_pages(size) : allocate_pages(size),
                         .size = size,
                         .mapped = mapped,
                         .region = nullptr};
    if (buffer.data != nullptr && caps_.register_messages) {
        const Segment segment{buffer.data, size};
        auto region =
            domain_->register_memory({&segment, 1}, Access::read_write, MemoryKind::host, 0);
        if (!region) {
            NA_LOG_ERROR(mem, "cannot register a message buffer of {} bytes: {}", size,
                         region.error().message);
            free_message(std::move(buffer));
            return {};
        }
        buffer.region = std::move(*region);
    }
    return buffer;
}

void Class::free_message(MessageBuffer&& buffer) noexcept {
    if (inherited()) [[unlikely]] {
        (void)buffer.region.release();
        return;
    }
    buffer.region.reset();
    if (!buffer.mapped) {
        std::free(buffer.data);
    } else if (buffer.data != nullptr) {
        munmap(buffer.data, buffer.size);
    }
    buffer.data = nullptr;
}

void* Class::allocate_memory(std::size_t bytes) {
    void* memory = domain_->allocate(bytes);
    if (memory == nullptr) {
        const std::lock_guard guard(plain_mutex_);
        memory = allocate_pages(bytes);
        if (memory == nullptr) {
            throw std::bad_alloc();
        }
        try {
            plain_.insert(memory);
        } catch (...) {
            std::free(memory);
            throw;
        }
    }
    return memory;
}

void Class::free_memory(void* memory, std::size_t bytes) noexcept {
    if (!inherited() && !free_plain(memory)) {
        domain_->deallocate(memory, bytes);
    }
}

void Class::retire_memory(void* memory, std::size_t bytes) noexcept {
    if (!inherited() && !free_plain(memory)) {
        domain_->retire(memory, bytes);
    }
}

bool Class::free_plain(void* memory) noexcept {
    if (memory != nullptr) {
        const std::lock_guard guard(plain_mutex_);
        if (plain_.erase(memory) == 0) {
            return false;
        }
    }
    std::free(memory);
    return true;
}

Status Class::enter(Context& context) {
    const std::lock_guard guard(contexts_mutex_);
    if (contexts_[context.id()] != nullptr) {
        return Status::exist;
    }
    contexts_[context.id()] = &context;
    return Status::success;
}

void Class::leave(Context& context) noexcept {
    const std::lock_guard guard(contexts_mutex_);
    if (contexts_[context.id()] == &context) {
        contexts_[context.id()] = nullptr;
    }
}

void Class::dump_counters() noexcept {
    const std::lock_guard guard(classes().mutex);
    for (Class* cls : classes().list) {
        const std::lock_guard contexts(cls->contexts_mutex_);
        for (Context* context : cls->contexts_) {
            if (context == nullptr) {
                continue;
            }
            try {
                for (const plugin::Stat& s : context->stats()) {
                    NA_LOG_INFO(diag, "{}+{} context {}: {} = {}", cls->class_name(),
                                cls->protocol(), context->id(), s.name, s.value);
                }
            } catch (const std::bad_alloc&) {
                NA_LOG_WARNING(diag, "out of memory for the counters of context {}", context->id());
            }
        }
    }
}

// Where threads share the class every poll looks by itself; else nobody changes the list meanwhile.
void Class::attend() noexcept {
    if (!threaded()) {
        for (Context* context : contexts_) {
            if (context != nullptr) {
                context->attend();
            }
        }
    }
}

void Class::reap_slow() noexcept {
    if (inherited()) {
        return;
    }
    // With the locks of all contexts, so that none is inside a plugin that finds the peer of a
    // connection again just now: until it hears drop() a plugin may name any peer that was posted
    // to. The order is that of the ids; nobody else holds two of these locks, or takes
    // contexts_mutex_ under one.
    const std::lock_guard guard(contexts_mutex_);
    for (Context* context : contexts_) {
        if (context != nullptr) {
            context->lock_.lock();
        }
    }
    while (std::unique_ptr<Address> address = addresses_.take_dead()) {
        for (Context* context : contexts_) {
            if (context != nullptr) {
                context->drop(address->peer());
            }
        }
    }
    for (Context* context : contexts_) {
        if (context != nullptr) {
            context->lock_.unlock();
        }
    }
}

}  // namespace na::inline impl
