/* SPDX-License-Identifier: BSD-3-Clause */
/* MIN, MAX and powerof2, as sys/param.h has them. C99 and C++. */
#ifndef MERCURY_PARAM_H
#define MERCURY_PARAM_H

#include <sys/param.h>

#endif /* MERCURY_PARAM_H */
