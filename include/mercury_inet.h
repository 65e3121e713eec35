/* SPDX-License-Identifier: BSD-3-Clause */
/* htons and its kind, with htonll and ntohll for 64 bits. C99 and C++. */
#ifndef MERCURY_INET_H
#define MERCURY_INET_H

#include <arpa/inet.h>
#include <endian.h>
#include <netinet/in.h>

#include "mercury_byteswap.h"

#ifndef htonll
#if __BYTE_ORDER == __LITTLE_ENDIAN
#define htonll(x) bswap_64(x)
#else
#define htonll(x) (x)
#endif
#endif
#ifndef ntohll
#define ntohll(x) htonll(x)
#endif

#endif /* MERCURY_INET_H */
