// SPDX-License-Identifier: BSD-3-Clause
#include "hg_service.hpp"

#include <fmt/format.h>

#include <vector>

#include "clock.hpp"
#include "hg_side.hpp"
#include "memory.hpp"
#include "pattern.hpp"
#include "tool.hpp"

namespace perf {

namespace {

// Where clients have more than that, what has not been used for so long makes room for the next
// one: a client that was killed while nothing was sent to it is not missed.
constexpr std::uint64_t kPlenty = std::uint64_t{1} << 30;
constexpr std::uint64_t kOldNs = 60'000'000'000;

}  // namespace

struct HgService::Memory {
    std::uint64_t client = 0;
    hg_bulk_t remote = HG_BULK_NULL;
    hg_bulk_t local = HG_BULK_NULL;
    Pages pages;  // empty if the library has the memory
    std::vector<void*> buffers;
    std::uint64_t size = 0;

    Memory() = default;
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    ~Memory() {
        HG_Bulk_free(remote);
        HG_Bulk_free(local);
    }
};

struct HgService::Session {
    HgService* service = nullptr;
    // Who sets it has everything below; an operation does until it has ended.
    std::atomic<bool> busy{false};
    std::uint64_t number = 0;
    std::unique_ptr<Memory> memory;  // none: nobody's
    std::atomic<std::uint64_t> used_ns{0};

    // The operation in progress.
    std::atomic<unsigned> pending{0};
    std::atomic<int> ret{HG_SUCCESS};
    hg_handle_t handle = HG_HANDLE_NULL;
    hg_bulk_t fresh = HG_BULK_NULL;
    BulkMove move;
};

HgService::HgService(const Options& options) : options_(options), id_(random_id()) {}

HgService::~HgService() {
    clear();
}

void HgService::clear() {
    const std::lock_guard lock(mutex_);
    for (auto& session : sessions_) {
        delete session.exchange(nullptr);
    }
    made_ = 1;
}

Handlers HgService::handlers() {
    return {.rate = on_rate,
            .digest = on_digest,
            .echo = on_echo,
            .status = on_status,
            .bulk_open = on_bulk_open,
            .bulk_close = on_bulk_close,
            .bulk_move = on_bulk_move,
            .bulk_move_fresh = on_bulk_move_fresh,
            .done = on_done};
}

HgService& HgService::of(hg_handle_t handle) {
    return *static_cast<HgService*>(HG_Class_get_data(HG_Get_info(handle)->hg_class));
}

// Decodes the arguments to memory of ours, as a server does that keeps them, or where they are.
bool HgService::read(hg_handle_t handle, Bytes& bytes) {
    thread_local std::vector<char> buffer;
    bytes.size = HG_Get_input_payload_size(handle);
    bytes.in_place = options_.in_place;
    if (!bytes.in_place && buffer.size() < bytes.size) {
        buffer.resize(bytes.size);
    }
    bytes.data = buffer.data();
    if (HG_Get_input(handle, &bytes) != HG_SUCCESS) {
        bad_.fetch_add(1);
        bytes = {};
        return false;
    }
    return true;
}

hg_return_t HgService::on_rate(hg_handle_t handle) {
    HgService& service = of(handle);
    Bytes bytes;
    if (service.read(handle, bytes)) {
        HG_Free_input(handle, &bytes);
    }
    HG_Respond(handle, nullptr, nullptr, nullptr);
    return HG_Destroy(handle);
}

hg_return_t HgService::on_digest(hg_handle_t handle) {
    HgService& service = of(handle);
    Bytes bytes;
    Digest digest;
    if (service.read(handle, bytes)) {
        digest.add(bytes.data, bytes.size);
        HG_Free_input(handle, &bytes);
    }
    HG_Respond(handle, nullptr, nullptr, &digest);
    return HG_Destroy(handle);
}

hg_return_t HgService::on_echo(hg_handle_t handle) {
    HgService& service = of(handle);
    Bytes bytes;
    const bool good = service.read(handle, bytes);
    HG_Respond(handle, nullptr, nullptr, &bytes);
    if (good) {
        HG_Free_input(handle, &bytes);
    }
    return HG_Destroy(handle);
}

hg_return_t HgService::on_status(hg_handle_t handle) {
    HgService& service = of(handle);
    Status status;
    status.contexts = service.options_.contexts;
    status.server = service.id_;
    status.bad = service.bad_.load();
    status.cpu_ns = cpu_ns();
    HG_Respond(handle, nullptr, nullptr, &status);
    return HG_Destroy(handle);
}

hg_return_t HgService::on_done(hg_handle_t handle) {
    HgService& service = of(handle);
    const auto answered = [](const hg_cb_info* info) {
        auto* s = static_cast<HgService*>(info->arg);
        if (!s->options_.no_shutdown) {
            s->stop();
        }
        return HG_SUCCESS;
    };
    HG_Respond(handle, answered, &service, nullptr);
    return HG_Destroy(handle);
}

// Throws Failure: why not.
std::unique_ptr<HgService::Memory> HgService::make_memory(hg_class_t* hg_class,
                                                          const BulkOpen& wanted) {
    // A client's wishes: not more than the machine has.
    if (wanted.buffers == 0 || wanted.size == 0 || wanted.size > (1ULL << 40) / wanted.buffers ||
        HG_Bulk_get_size(wanted.bulk) < wanted.size * wanted.buffers) {
        throw Failure(fmt::format("a client has {} buffers of {} B, and described {} B",
                                  wanted.buffers, wanted.size, HG_Bulk_get_size(wanted.bulk)));
    }
    // With what each costs besides, here and in the library.
    need_memory({wanted.size + 4 * sizeof(void*), wanted.buffers}, "a client's buffers");
    auto memory = std::make_unique<Memory>();
    memory->client = wanted.client;
    memory->size = wanted.size;
    const std::vector<hg_size_t> sizes(wanted.buffers, wanted.size);
    memory->buffers.resize(wanted.buffers);
    if (wanted.library_memory == 0) {
        memory->pages = Pages(wanted.size * wanted.buffers);
        for (std::size_t i = 0; i < wanted.buffers; ++i) {
            memory->buffers[i] = memory->pages.data() + i * wanted.size;
        }
    }
    check_hg(HG_Bulk_create(hg_class, wanted.buffers,
                            wanted.library_memory != 0 ? nullptr : memory->buffers.data(),
                            sizes.data(), HG_BULK_READWRITE, &memory->local),
             "cannot register memory for a client");
    for (std::uint32_t i = 0; wanted.library_memory != 0 && i < wanted.buffers; ++i) {
        hg_size_t got = 0;
        std::uint32_t pieces = 0;
        check_hg(HG_Bulk_access(memory->local, i * wanted.size, wanted.size, HG_BULK_READWRITE, 1,
                                &memory->buffers[i], &got, &pieces),
                 "cannot find the library's memory");
        std::memset(memory->buffers[i], 1, got);
    }
    check_hg(HG_Bulk_ref_incr(wanted.bulk), "cannot keep a client's description");
    memory->remote = wanted.bulk;
    return memory;
}

template <typename Which>
void HgService::forget(Which&& which) {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 1; i < made_; ++i) {
        Session& session = *sessions_[i].load();
        if (session.memory != nullptr && which(session) && !session.busy.exchange(true)) {
            session.memory.reset();
            session.busy.store(false);
        }
    }
}

std::uint64_t HgService::held() {
    const std::lock_guard lock(mutex_);
    std::uint64_t bytes = 0;
    for (std::size_t i = 1; i < made_; ++i) {
        const Session& session = *sessions_[i].load();
        if (session.memory != nullptr) {
            bytes += session.memory->size * session.memory->buffers.size();
        }
    }
    return bytes;
}

void HgService::gone(std::uint64_t client) {
    forget([client](const Session& session) { return session.memory->client == client; });
}

HgService::Session* HgService::take(std::uint64_t number) {
    Session* session = sessions_[number % kMaxSessions].load(std::memory_order_acquire);
    if (session == nullptr || session->busy.exchange(true)) {
        return nullptr;
    }
    if (session->number != number || session->memory == nullptr) {
        session->busy.store(false);
        return nullptr;
    }
    return session;
}

std::uint64_t HgService::open(hg_class_t* hg_class, const BulkOpen& wanted) {
    try {
        const auto forget_old = [this] {
            forget([now = now_ns()](const Session& session) {
                return now - session.used_ns.load() > kOldNs;
            });
        };
        if (held() + wanted.size * wanted.buffers > kPlenty) {
            forget_old();
        }
        std::unique_ptr<Memory> memory;
        try {
            memory = make_memory(hg_class, wanted);
        } catch (const std::exception&) {
            forget_old();
            memory = make_memory(hg_class, wanted);
        }
        const std::lock_guard lock(mutex_);
        std::size_t place = 1;
        for (; place < made_; ++place) {
            Session& session = *sessions_[place].load();
            if (session.memory == nullptr && !session.busy.exchange(true)) {
                break;
            }
        }
        if (place == kMaxSessions) {
            throw Failure(
                fmt::format("no more than {} handles of clients at once", kMaxSessions - 1));
        }
        if (place == made_) {
            auto made = std::make_unique<Session>();
            made->service = this;
            made->busy.store(true);
            sessions_[place].store(made.release(), std::memory_order_release);
            ++made_;
        }
        Session& session = *sessions_[place].load();
        // Never the same again: who is late does not find somebody else's.
        session.number = ++opened_ * kMaxSessions + place;
        session.memory = std::move(memory);
        session.used_ns.store(now_ns());
        const std::uint64_t number = session.number;
        session.busy.store(false);
        return number;
    } catch (const std::exception& e) {
        report_failure(options_, e.what());
        return 0;
    }
}

hg_return_t HgService::on_bulk_open(hg_handle_t handle) {
    HgService& service = of(handle);
    BulkOpen wanted;
    Number session;
    if (HG_Get_input(handle, &wanted) == HG_SUCCESS) {
        session.value = service.open(HG_Get_info(handle)->hg_class, wanted);
        HG_Free_input(handle, &wanted);
    }
    HG_Respond(handle, nullptr, nullptr, &session);
    return HG_Destroy(handle);
}

hg_return_t HgService::on_bulk_close(hg_handle_t handle) {
    HgService& service = of(handle);
    Number number;
    if (HG_Get_input(handle, &number) == HG_SUCCESS) {
        HG_Free_input(handle, &number);
        service.forget(
            [&number](const Session& session) { return session.number == number.value; });
    }
    HG_Respond(handle, nullptr, nullptr, nullptr);
    return HG_Destroy(handle);
}

hg_return_t HgService::on_bulk_move(hg_handle_t handle) {
    BulkMove move;
    if (HG_Get_input(handle, &move) != HG_SUCCESS) {
        return HG_Destroy(handle);
    }
    HG_Free_input(handle, &move);
    return of(handle).move(handle, move, HG_BULK_NULL);
}

hg_return_t HgService::on_bulk_move_fresh(hg_handle_t handle) {
    BulkMoveFresh fresh;
    if (HG_Get_input(handle, &fresh) != HG_SUCCESS) {
        return HG_Destroy(handle);
    }
    auto* const bulk = fresh.bulk;  // freeing the input takes it out of the structure
    HG_Bulk_ref_incr(bulk);
    HG_Free_input(handle, &fresh);
    return of(handle).move(handle, fresh.move, bulk);
}

hg_return_t HgService::move(hg_handle_t handle, const BulkMove& move, hg_bulk_t fresh) {
    Session* const session = take(move.session);
    if (session != nullptr && (move.size > session->memory->size || move.buffers == 0 ||
                               move.buffers > session->memory->buffers.size())) {
        session->busy.store(false);
    } else if (session != nullptr) {
        begin(*session, handle, move, fresh);
        return HG_SUCCESS;
    }
    HG_Bulk_free(fresh);
    BulkMoved refused{HG_INVALID_ARG, {}};
    HG_Respond(handle, nullptr, nullptr, &refused);
    return HG_Destroy(handle);
}

void HgService::begin(Session& session, hg_handle_t handle, const BulkMove& move, hg_bulk_t fresh) {
    const Memory& memory = *session.memory;
    session.handle = handle;
    session.fresh = fresh;
    session.move = move;
    session.ret.store(HG_SUCCESS);
    // One more than there are, so that it is not over before all have been posted.
    session.pending.store(move.buffers + 1);
    if (move.verify != 0 && move.push != 0) {
        for (std::uint32_t i = 0; i < move.buffers; ++i) {
            fill_pattern(memory.buffers[i], move.size, buffer_seed(move.seed, i));
        }
    }
    const hg_info* info = HG_Get_info(handle);
    auto* const remote = fresh != HG_BULK_NULL ? fresh : memory.remote;
    for (std::uint32_t i = 0; i < move.buffers; ++i) {
        const hg_size_t at = i * memory.size;
        // What is registered for one operation has nothing else in it.
        const hg_size_t remote_at = fresh != HG_BULK_NULL ? i * move.size : at;
        const hg_return_t ret = HG_Bulk_transfer_id(info->context, on_moved, &session,
                                                    move.push != 0 ? HG_BULK_PUSH : HG_BULK_PULL,
                                                    info->addr, info->context_id, remote, remote_at,
                                                    memory.local, at, move.size, HG_OP_ID_IGNORE);
        if (ret != HG_SUCCESS) {
            session.ret.store(ret);
            session.pending.fetch_sub(1);
        }
    }
    if (session.pending.fetch_sub(1) == 1) {
        finish(session);
    }
}

hg_return_t HgService::on_moved(const hg_cb_info* info) {
    auto* session = static_cast<Session*>(info->arg);
    if (info->ret != HG_SUCCESS) {
        session->ret.store(info->ret);
    }
    if (session->pending.fetch_sub(1) == 1) {
        session->service->finish(*session);
    }
    return HG_SUCCESS;
}

void HgService::finish(Session& session) {
    BulkMoved answer{static_cast<std::uint64_t>(session.ret.load()), {}};
    if (session.move.verify != 0 && session.move.push == 0) {
        for (std::uint32_t i = 0; i < session.move.buffers; ++i) {
            answer.digest.add(session.memory->buffers[i], session.move.size);
        }
    }
    auto* const handle = session.handle;
    const std::uint64_t client = session.memory->client;
    HG_Bulk_free(std::exchange(session.fresh, HG_BULK_NULL));
    session.used_ns.store(now_ns());
    session.busy.store(false);  // from here on the next operation may come
    if (answer.code == HG_HOSTUNREACH) {
        gone(client);
    }
    // NOLINTNEXTLINE(performance-no-int-to-ptr): a number, which the callback gets back
    HG_Respond(handle, on_responded, reinterpret_cast<void*>(static_cast<std::uintptr_t>(client)),
               &answer);
    HG_Destroy(handle);
}

hg_return_t HgService::on_responded(const hg_cb_info* info) {
    if (info->ret == HG_HOSTUNREACH) {
        of(info->info.respond.handle).gone(reinterpret_cast<std::uintptr_t>(info->arg));
    }
    return HG_SUCCESS;
}

}  // namespace perf
