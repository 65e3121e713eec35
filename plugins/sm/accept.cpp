// SPDX-License-Identifier: BSD-3-Clause
// Connections that peers make to this context. Everything a newcomer says is checked before
// anything of it is mapped.
#include <algorithm>
#include <cerrno>
#include <new>
#include <optional>
#include <span>

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "na/util/log.hpp"
#include "plugins/sm/context.hpp"

namespace na::sm {
namespace {

constexpr int kAcceptBudget = 64;
// Peers refused in one poll for lack of files; then the listening socket is left alone for a while.
constexpr int kRefusalBudget = 8;
constexpr std::int64_t kMuted = 10'000'000;
// One peer context connects once; a second and third time where an older connection is still being
// closed.
constexpr std::ptrdiff_t kPerPeer = 4;

// All connections of one process to this context, under whatever names: a quarter of the files.
std::size_t most_per_process() noexcept {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    return static_cast<std::size_t>(std::clamp<rlim_t>(limit.rlim_cur / 4, 64, 4096));
}

}  // namespace

std::size_t Context::on_listener() noexcept {
    std::size_t handled = 0;
    int refusals = 0;
    for (int i = 0; i < kAcceptBudget; ++i) {
        ++stats_.system_calls;
        UniqueFd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (!socket) {
            if (errno == EMFILE || errno == ENFILE) {
                if (++refusals <= kRefusalBudget && refuse_for_lack_of_files()) {
                    continue;
                }
                mute_listener(true);
                break;
            }
            if (errno == EINTR || errno == ECONNABORTED) {
                continue;
            }
            break;
        }
        ++handled;
        const Credentials process = credentials_of(socket.get());
        if (!domain_.allows_user(process.uid)) {
            NA_LOG_WARNING(
                sm, "process {} of user {} is refused: add the id to NA_SM_ALLOW_UIDS to admit it",
                process.pid, process.uid);
            ++stats_.refused;
            ++stats_.bad_input;
            sink_.dropped("a peer of another user");
            refuse(std::move(socket), Verdict::user);
            continue;
        }
        Received message;
        ++stats_.system_calls;
        receive_message(socket.get(), message);
        if (message.what == Received::What::message) {
            greet(std::move(socket), process, message);
        } else if (message.what == Received::What::nothing) {
            // The greeting normally comes with the connection. Those who let us wait are few, or
            // thrown out.
            auto place = std::find_if(greetings_.begin(), greetings_.end(),
                                      [](const Greeting& g) { return !g.socket; });
            try {
                if (place == greetings_.end() && greetings_.size() < kMaxGreetings) {
                    greetings_.emplace_back();
                    place = greetings_.end() - 1;
                }
            } catch (const std::bad_alloc&) {
                refuse(std::move(socket), Verdict::limit);
                continue;
            }
            if (place == greetings_.end()) {
                // The oldest of the process that has most of them.
                const auto rank = [&](const Greeting& g) {
                    return std::count_if(
                        greetings_.begin(), greetings_.end(),
                        [&](const Greeting& other) { return other.process.pid == g.process.pid; });
                };
                place = std::max_element(greetings_.begin(), greetings_.end(),
                                         [&](const Greeting& a, const Greeting& b) {
                                             const auto ra = rank(a);
                                             const auto rb = rank(b);
                                             return ra != rb ? ra < rb : a.since > b.since;
                                         });
                ++stats_.refused;
                sink_.dropped("a connection without a greeting");
                epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, place->socket.get(), nullptr);
                refuse(std::move(place->socket), Verdict::limit);
            }
            *place = Greeting{std::move(socket), process, ++greeted_};
            if (!watch(place->socket.get(), Event::greeting,
                       static_cast<std::uint32_t>(place - greetings_.begin()))) {
                place->socket.reset();
            }
        }
        // Hung up without a word: somebody only wanted to know whether we are here.
    }
    return handled;
}

// Without a file for it the peer cannot be accepted, and would keep the listening socket readable
// for ever. One file is kept for this moment: it serves to accept, to say why, and to close. False:
// the file is lost to another thread, or nobody waits any more.
bool Context::refuse_for_lack_of_files() noexcept {
    spare_.reset();
    UniqueFd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    const bool refused = socket.get() >= 0;
    if (refused) {
        const bool admitted = domain_.allows_user(credentials_of(socket.get()).uid);
        refuse(std::move(socket), admitted ? Verdict::files : Verdict::user);
    }
    spare_.reset(fcntl(epoll_.get(), F_DUPFD_CLOEXEC, 3));
    stats_.refused += refused ? 1 : 0;
    if (!std::exchange(complained_, true)) {
        NA_LOG_ERROR(sm,
                     "sm://{}: a peer is refused for lack of files: raise the limit on open files "
                     "(ulimit -n)",
                     domain_.name());
    }
    return refused;
}

// Whom we cannot accept would keep the descriptor readable, and everybody awake.
void Context::mute_listener(bool mute) noexcept {
    epoll_event e{};
    e.events = mute ? 0U : EPOLLIN | EPOLLRDHUP;
    e.data.u64 = static_cast<std::uint64_t>(Event::listener) << 32;
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listener_.get(), &e) == 0) {
        muted_until_ = mute ? now() + kMuted : 0;
    }
    if (!mute && !spare_) {
        spare_.reset(fcntl(epoll_.get(), F_DUPFD_CLOEXEC, 3));
    }
}

int Context::send_answer(Connection& c) noexcept {
    Answer answer{};
    answer.control = Control::answer;
    answer.version = kLayoutVersion;
    answer.magic = kHelloMagic;
    answer.verdict = Verdict::accepted;
    answer.bit = c.number % kReadyBits;
    answer.nonce = nonce();
    answer.max_message[0] = max_message_[0];
    answer.max_message[1] = max_message_[1];
    const int fds[kAnswerFds] = {status_page_.fd.get(), ready_page_.fd.get(),
                                 domain_.permits().fd()};
    return send_message(c.socket.get(), &answer, sizeof answer, fds);
}

// Peers that were let in, and not told so: too many descriptors were on their way, for all of this
// user's processes.
void Context::answer_late() noexcept {
    for (std::size_t i = 0; i < unanswered_.size();) {
        Connection& c = *unanswered_[i];
        const int error = c.state == Connection::State::open ? send_answer(c) : 0;
        if (is_shortage(error)) {
            return;  // for the others as well
        }
        if (error != 0) {
            hang_up(c, Status::hostunreach);
        }
        c.is_unanswered = false;
        unanswered_[i] = unanswered_.back();
        unanswered_.pop_back();
    }
}

void Context::on_greeting(std::uint32_t index) noexcept {
    Greeting& g = greetings_[index];
    Received message;
    ++stats_.system_calls;
    receive_message(g.socket.get(), message);
    if (message.what == Received::What::nothing) {
        return;
    }
    UniqueFd socket = std::move(g.socket);
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, socket.get(), nullptr);
    if (message.what == Received::What::message) {
        greet(std::move(socket), g.process, message);
    }
}

void Context::greet(UniqueFd socket, const Credentials& process, Received& message) noexcept {
    const char* why = "a malformed greeting";
    Verdict verdict = Verdict::limit;
    try {
        verdict = accept(socket, process, message, why);
    } catch (const std::bad_alloc&) {
        why = "no memory for a further peer";
    }
    if (verdict == Verdict::accepted) {
        ++stats_.accepted;
        return;
    }
    NA_LOG_WARNING(sm, "sm://{}: process {} is not let in: {}", domain_.name(), process.pid, why);
    ++stats_.refused;
    ++stats_.bad_input;
    sink_.dropped(why);
    if (socket) {
        refuse(std::move(socket), verdict);
    }
}

// A living endpoint says why: a mere hang-up would be taken for its death.
void Context::refuse(UniqueFd socket, Verdict verdict) noexcept {
    // Room for descriptors is not offered, so that none of the greeting's are opened here.
    char greeting;
    static_cast<void>(::recv(socket.get(), &greeting, sizeof greeting, MSG_DONTWAIT | MSG_TRUNC));
    Answer answer{};
    answer.control = Control::answer;
    answer.version = kLayoutVersion;
    answer.magic = kHelloMagic;
    answer.verdict = verdict;
    static_cast<void>(send_message(socket.get(), &answer, sizeof answer));
}

Verdict Context::accept(UniqueFd& socket, const Credentials& process, Received& message,
                        const char*& why) {
    Hello hello{};
    // Another version may have another size: its first fields say so.
    if (message.bytes >= offsetof(Hello, geometry)) {
        std::memcpy(&hello, message.buffer, std::min(message.bytes, sizeof hello));
    }
    if (const Verdict v = check(hello, why); v != Verdict::accepted) {
        return v;
    }
    if (!message.get(hello) || message.fd_count != kHelloFds || hello.target_context != id_) {
        why = "a greeting of the wrong size, or without its descriptors";
        return Verdict::malformed;
    }
    auto name = check_name({hello.name, hello.name_length});
    if (!name) {
        why = "a greeting with a malformed name";
        return Verdict::malformed;
    }
    if (const Verdict v = check_identity(*name, hello.context, process, why);
        v != Verdict::accepted) {
        return v;
    }
    const auto of_process = std::count_if(slots_.begin(), slots_.end(), [&](const auto& c) {
        return c != nullptr && !c->outgoing && c->process.pid == process.pid;
    });
    if (static_cast<std::size_t>(of_process) >= most_per_process()) {
        why = "a process with too many connections: it has a quarter of the open files (ulimit -n)";
        return Verdict::limit;
    }
    auto region = map_peer_memory(message.fds[0].get(), hello.geometry.region_bytes(), true);
    auto status = map_peer_memory(message.fds[1].get(), kPageBytes, false);
    auto ready = map_peer_memory(message.fds[2].get(), kPageBytes, true);
    auto permits = map_peer_memory(message.fds[3].get(), kPermitBytes, false);
    if (!region || !status || !ready || !permits) {
        why = "a greeting with unusable shared memory";
        return Verdict::malformed;
    }
    plugin::Peer* source = sink_.source(std::as_bytes(std::span(*name)));
    if (source == nullptr) {
        why = "no room for a further peer";
        return Verdict::limit;
    }
    auto& peer = *static_cast<Peer*>(source);
    Link& link = peer.link(id_);
    // What it sent over connections that it has closed since comes first.
    for (Connection* old : link.all) {
        old->receive(kRingLines);
        on_socket(*old);
    }
    if (end_predecessor(peer, process.pid)) {
        // Now, and not when they are buried: from here on posts are meant for the newcomer.
        for (Connection* old : link.all) {
            stats_.lost += old->silent ? 0 : 1;
            old->silent = true;
        }
        sink_.peer_lost(peer, Status::hostunreach);
    }
    // Who comes back has no use for the connection over which it said goodbye.
    for (Connection* old : link.all) {
        if (old->parted && old->state == Connection::State::open && !in_use(*old)) {
            old->silent = true;
            hang_up(*old, Status::hostunreach);
        }
    }
    const auto same = std::count_if(link.all.begin(), link.all.end(), [&](const Connection* c) {
        return !c->outgoing && c->remote_context == hello.context &&
               c->state == Connection::State::open;
    });
    if (same >= kPerPeer) {
        sink_.release(peer);
        why = "a peer that connects again and again";
        return Verdict::limit;
    }
    try {
        link.all.reserve(link.all.size() + 1);
        if (link.to(hello.context) == nullptr) {
            link.set(hello.context, nullptr);
        }
        auto made =
            std::make_unique<Connection>(*this, std::move(socket), process, std::move(*region),
                                         hello.geometry, false, hello.context);
        Connection& c = enter(std::move(made));
        c.peer = &peer;
        c.holds_source = true;
        link.all.push_back(&c);
        // Behind an older connection that has not been buried yet, posts would fail although the
        // peer is here.
        if (Connection* to = link.to(hello.context);
            to == nullptr || to->state != Connection::State::open) {
            link.set(hello.context, &c);
        }
        c.set_peer_pages(std::move(*status), std::move(*ready), std::move(*permits), hello.bit);
        c.set_peer_limits(hello.max_message);
        if (!domain_.listens() && (process.pid != getpid() || *name != domain_.name())) {
            c.leave_uncalled();
        }
        c.set_attach(can_attach(process, hello.nonce), hello.nonce);

        const int error = send_answer(c);
        if (is_shortage(error)) {
            c.is_unanswered = true;
            unanswered_.push_back(&c);
        }
        if ((error != 0 && !c.is_unanswered) ||
            !watch(c.socket.get(), Event::connection, c.number)) {
            // It is gone already, perhaps, but its messages are here.
            hang_up(c, Status::hostunreach);
        }
        heat(c);
        look_again(c);
    } catch (const std::bad_alloc&) {
        sink_.release(peer);
        throw;
    }
    return Verdict::accepted;
}

// Whether the process may use that name.
Verdict Context::check_identity(const std::string& name, std::uint8_t context,
                                const Credentials& process, const char*& why) const {
    const std::optional<Owner> owner = owner_of(name);
    if (process.pid == 0 || (owner && !owner->lives_in(domain_.namespaces()))) {
        why = "a peer in another pid namespace";
        return Verdict::namespaces;
    }
    if (owner) {
        if (owner->process != process.pid) {
            why = "a peer under the name of another process";
            return Verdict::identity;
        }
        return Verdict::accepted;
    }
    const ConnectResult listener = connect_socket(socket_name(name, context));
    if (listener.how != Connected::yes || listener.peer.pid != process.pid ||
        listener.peer.uid != process.uid || !owns(name, context, process.pid)) {
        why = "a peer under a name at which it does not listen";
        return Verdict::identity;
    }
    return Verdict::accepted;
}

// A name that the user chose is the listener's: ask the kernel who listens there. The listener sees
// a connection that closes again. Who listens as one of its contexts owns the name if he has
// context 0, too, or if nobody has.
bool Context::owns(const std::string& name, std::uint8_t context, pid_t process) noexcept {
    if (context == 0) {
        return true;
    }
    const ConnectResult first = connect_socket(socket_name(name, 0));
    return first.how == Connected::refused || first.peer.pid == process;
}

}  // namespace na::sm
