// SPDX-License-Identifier: BSD-3-Clause
// A provider that wants more of memory than the real one below it (mr_mode): what it wants is
// checked, or taken back out, on the way down.
#pragma once

#include <rdma/fi_domain.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace modes {

// Of classes opened from now on. 0: the real one as it is.
void want(int bits);
int wanted();

// Of classes opened from now on: the largest message that the provider says it sends. 0: what the
// real one says.
void limit_messages(std::size_t bytes);
struct Limited {
    explicit Limited(std::size_t bytes) { limit_messages(bytes); }
    ~Limited() { limit_messages(0); }
    Limited(const Limited&) = delete;
    Limited& operator=(const Limited&) = delete;
};

// As long as it is there the provider has keys, and takes each (fi_domain_attr.auth_key).
struct Keyed {
    Keyed();
    ~Keyed();
    Keyed(const Keyed&) = delete;
    Keyed& operator=(const Keyed&) = delete;
};

// As long as it is there a provider is, too, that has cards at places of the PCI bus. Nothing of it
// can be opened.
struct Card {
    std::string fabric;
    std::uint16_t domain = 0;
    std::uint8_t bus = 0;
    std::uint8_t device = 0;
    std::uint8_t function = 0;
};
struct Cards {
    Cards(std::string provider, std::vector<Card> list);
    ~Cards();
    Cards(const Cards&) = delete;
    Cards& operator=(const Cards&) = delete;

    const std::string provider;
    const std::vector<Card> list;
    std::vector<std::string> tried;  // fabrics
};
// The fabric is a card's; it was tried.
bool is_card(const fi_fabric_attr& fabric);

// What was wished for, and what a domain was opened with.
struct Wish {
    fi_threading threading = FI_THREAD_UNSPEC;
    std::uint32_t traffic_class = FI_TC_UNSPEC;
    std::string key;
};
std::vector<Wish>& asked();
std::vector<Wish>& opened();

// What has not been given back.
std::size_t registrations();
std::size_t mapped_keys();
// What went through it since want(): posts whose local memory was checked, puts and gets.
std::size_t checked();
std::size_t translated();

// For spies.cpp: as the real provider understands it.
fi_info* real_info(const fi_info* info);
bool stands_between();  // it has something to add to the real one
Wish wish_of(const fi_info& info);
void watch_domain(fid_domain* domain);
void watch_endpoint(fid_ep* endpoint);

}  // namespace modes
