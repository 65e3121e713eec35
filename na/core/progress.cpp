// SPDX-License-Identifier: BSD-3-Clause
#include "na/core/progress.hpp"

#include <cerrno>
#include <cstring>
#include <ctime>

#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "na/util/log.hpp"
#include "na/util/standard_fds.hpp"

namespace na::inline impl {

Waiter::~Waiter() {
    if (event_ >= 0) {
        close(event_);
    }
    if (epoll_ >= 0) {
        close(epoll_);
    }
}

Status Waiter::open() {
    epoll_ = util::above_standard(epoll_create1(EPOLL_CLOEXEC));
    event_ = util::above_standard(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (epoll_ < 0 || event_ < 0) {
        const int error = errno;
        NA_LOG_ERROR(poll, "cannot make a wait descriptor: {} (raise the limit on open files?)",
                     to_string(status_of_errno(error)));
        return status_of_errno(error);
    }
    return add(event_);
}

Status Waiter::add(int source_fd) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = source_fd;
    sources_.push_back(source_fd);
    if (epoll_ctl(epoll_, EPOLL_CTL_ADD, source_fd, &event) != 0) {
        const int error = errno;
        sources_.pop_back();
        NA_LOG_ERROR(
            poll, "cannot wait on descriptor {}: {}", source_fd,
            error == ELOOP ? "too many epoll sets within each other" : std::strerror(error));
        return status_of_errno(error);
    }
    return Status::success;
}

Status Waiter::add(const Waiter& other) {
    for (const int fd : other.sources_) {
        if (const Status s = add(fd); !ok(s)) {
            return s;
        }
    }
    return Status::success;
}

void Waiter::remove(int source_fd) noexcept {
    epoll_ctl(epoll_, EPOLL_CTL_DEL, source_fd, nullptr);
    std::erase(sources_, source_fd);
}

void Waiter::wake() noexcept {
    if (event_ < 0) {
        return;
    }
    wakes_.fetch_add(1, std::memory_order_relaxed);
    const std::uint64_t one = 1;
    // A full counter (EAGAIN) is readable already.
    [[maybe_unused]] const ssize_t n = write(event_, &one, sizeof one);
}

void Waiter::drain() noexcept {
    if (event_ >= 0) {
        std::uint64_t count = 0;
        [[maybe_unused]] const ssize_t n = read(event_, &count, sizeof count);
    }
}

bool Waiter::sleep(Clock::duration at_most) noexcept {
    sleeps_.fetch_add(1, std::memory_order_relaxed);
    // Rounded up: waking early would only mean another turn.
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(at_most).count();
    pollfd set{.fd = epoll_, .events = POLLIN, .revents = 0};
    return ::poll(&set, 1, static_cast<int>(ms)) != 0;
}

const void* Waiter::this_thread() noexcept {
    thread_local const char token = 0;
    return &token;
}

void Waiter::disarm_slow() noexcept {
    const void* me = this_thread();
    if (const void* who = armed_.exchange(nullptr, std::memory_order_relaxed); who != nullptr) {
        drain();
        owed_.store(who, std::memory_order_relaxed);
    }
    if (owed_.load(std::memory_order_relaxed) == me) {
        owed_.store(nullptr, std::memory_order_relaxed);
    }
}

void Waiter::yield() noexcept {
    sched_yield();
}

void Waiter::pause(std::chrono::microseconds length) noexcept {
    sleeps_.fetch_add(1, std::memory_order_relaxed);
    const timespec time{.tv_sec = 0, .tv_nsec = std::chrono::nanoseconds(length).count()};
    nanosleep(&time, nullptr);
}

}  // namespace na::inline impl
