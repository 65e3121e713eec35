// SPDX-License-Identifier: BSD-3-Clause
// Info strings and addresses as text.
#include <string>

#include "na/util/uri.hpp"
#include "target.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string text(reinterpret_cast<const char*>(data), size);
    const auto uri = na::util::parse_uri(text);
    if (uri) {
        fuzz::require(!uri->protocol.empty(), "a protocol is never empty");
        // What was taken apart can be put together and taken apart again.
        const std::string again = (uri->class_name.empty() ? "" : uri->class_name + "+") +
                                  uri->protocol + (uri->has_host ? "://" + uri->host : "");
        const auto second = na::util::parse_uri(again);
        fuzz::require(bool(second), "what was parsed parses again");
        fuzz::require(second->class_name == uri->class_name && second->protocol == uri->protocol &&
                          second->host == uri->host,
                      "to the same parts");
    } else {
        fuzz::require(!uri.error().message.empty(), "an error says why");
    }
    for (const std::uint8_t choice : {std::uint8_t{0}, std::uint8_t{1}}) {
        na_class_t* cls = fuzz::class_for(choice);
        na_addr_t* addr = nullptr;
        if (cls != nullptr && NA_Addr_lookup(cls, text.c_str(), &addr) == NA_SUCCESS) {
            char buffer[2048];
            std::size_t length = sizeof buffer;
            fuzz::require(NA_Addr_to_string(cls, buffer, &length, addr) == NA_SUCCESS,
                          "an address prints");
            na_addr_t* copy = nullptr;
            fuzz::require(
                NA_Addr_lookup(cls, buffer, &copy) == NA_SUCCESS && NA_Addr_cmp(cls, addr, copy),
                "what is printed can be looked up");
            NA_Addr_free(cls, copy);
            NA_Addr_free(cls, addr);
        }
    }
    return 0;
}
