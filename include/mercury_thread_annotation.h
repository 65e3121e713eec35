/* SPDX-License-Identifier: BSD-3-Clause */
/* What functions do with locks, for programs that say it in Mercury's words. They expand to
 * nothing: the lock types here are plain. C99 and C++. */
#ifndef MERCURY_THREAD_ANNOTATION_H
#define MERCURY_THREAD_ANNOTATION_H

#define HG_LOCK_CAPABILITY(x)
#define HG_LOCK_ACQUIRE(...)
#define HG_LOCK_ACQUIRE_SHARED(...)
#define HG_LOCK_RELEASE(...)
#define HG_LOCK_RELEASE_SHARED(...)
#define HG_LOCK_TRY_ACQUIRE(...)
#define HG_LOCK_TRY_ACQUIRE_SHARED(...)
#define HG_LOCK_NO_THREAD_SAFETY_ANALYSIS

#endif /* MERCURY_THREAD_ANNOTATION_H */
