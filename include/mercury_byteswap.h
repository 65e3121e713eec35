/* SPDX-License-Identifier: BSD-3-Clause */
/* bswap_16, bswap_32, bswap_64: bytes in the other order. C99 and C++. */
#ifndef MERCURY_BYTESWAP_H
#define MERCURY_BYTESWAP_H

#include <byteswap.h>

#endif /* MERCURY_BYTESWAP_H */
