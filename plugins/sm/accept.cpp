// SPDX-License-Identifier: BSD-3-Clause
// Connections that peers make to this context. Everything a newcomer says is checked before
// anything of it is mapped.
#include <algorithm>
#include <cerrno>
#include <new>
#include <span>

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "na/util/log.hpp"
#include "plugins/sm/context.hpp"

namespace na::sm {
namespace {

constexpr int kAcceptBudget = 64;
// One peer context connects once; a second and third time where an older connection is still being
// closed.
constexpr std::ptrdiff_t kPerPeer = 4;

}  // namespace

std::size_t Context::on_listener() noexcept {
    std::size_t handled = 0;
    for (int i = 0; i < kAcceptBudget; ++i) {
        ++stats_.system_calls;
        UniqueFd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (!socket) {
            if (errno == EMFILE || errno == ENFILE) {
                refuse_for_lack_of_files();
                continue;
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
                continue;
            }
            if (place == greetings_.end()) {
                place = std::min_element(
                    greetings_.begin(), greetings_.end(),
                    [](const Greeting& a, const Greeting& b) { return a.since < b.since; });
                ++stats_.refused;
                sink_.dropped("a connection without a greeting");
                epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, place->socket.get(), nullptr);
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
// for ever. One file is kept for this moment: it serves to accept and close, which the peer sees as
// a hang-up.
void Context::refuse_for_lack_of_files() noexcept {
    spare_.reset();
    UniqueFd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)).reset();
    spare_.reset(fcntl(epoll_.get(), F_DUPFD_CLOEXEC, 0));
    ++stats_.refused;
    if (!std::exchange(complained_, true)) {
        NA_LOG_ERROR(sm,
                     "sm://{}: a peer is refused for lack of files: raise the limit on open files "
                     "(ulimit -n)",
                     domain_.name());
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
        Answer answer{};
        answer.control = Control::answer;
        answer.version = kLayoutVersion;
        answer.magic = kHelloMagic;
        answer.verdict = verdict;
        static_cast<void>(send_message(socket.get(), &answer, sizeof answer));
    }
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
    auto region = map_peer_memory(message.fds[0].get(), hello.geometry.region_bytes(), true);
    auto status = map_peer_memory(message.fds[1].get(), kPageBytes, false);
    auto ready = map_peer_memory(message.fds[2].get(), kPageBytes, true);
    if (!region || !status || !ready) {
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
        c.set_peer_pages(std::move(*status), std::move(*ready), hello.bit);
        c.set_peer_limits(hello.max_message);
        c.set_attach(can_attach(process.pid, hello.nonce));

        Answer answer{};
        answer.control = Control::answer;
        answer.version = kLayoutVersion;
        answer.magic = kHelloMagic;
        answer.verdict = Verdict::accepted;
        answer.bit = c.number % kReadyBits;
        answer.nonce = nonce();
        answer.max_message[0] = max_message_[0];
        answer.max_message[1] = max_message_[1];
        const int fds[kAnswerFds] = {status_page_.fd.get(), ready_page_.fd.get()};
        const int error = send_message(c.socket.get(), &answer, sizeof answer, fds);
        if (error != 0 || !watch(c.socket.get(), Event::connection, c.number)) {
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
                                const Credentials& process, const char*& why) {
    if (!domain_.listens() && (process.pid != getpid() || name != domain_.name())) {
        why = "an endpoint that does not listen accepts nobody but itself";
        return Verdict::identity;
    }
    if (const auto owner = process_of(name)) {
        if (*owner != process.pid) {
            why = "a peer under the name of another process";
            return Verdict::identity;
        }
        return Verdict::accepted;
    }
    // A name that the user chose is the listener's: ask the kernel who listens there. The listener
    // sees a connection that closes again.
    const ConnectResult listener = connect_socket(socket_name(name, context));
    if (listener.how != Connected::yes || listener.peer.pid != process.pid ||
        listener.peer.uid != process.uid) {
        why = "a peer under a name at which it does not listen";
        return Verdict::identity;
    }
    return Verdict::accepted;
}

}  // namespace na::sm
