/* SPDX-License-Identifier: BSD-3-Clause */
/* The identity of the host. */
#include "na_sm.h"

#include <limits.h>
#include <string.h>

#include "expect.h"

int main(void) {
    char text[NA_SM_HOST_ID_LEN];
    na_sm_id_t id = -1;
    na_sm_id_t again = -1;

    EXPECT(NA_SM_Host_id_get(NULL) == NA_INVALID_ARG);
    EXPECT(NA_SM_Host_id_get(&id) == NA_SUCCESS && id >= 0);
    EXPECT(NA_SM_Host_id_get(&again) == NA_SUCCESS && NA_SM_Host_id_cmp(id, again));
    memset(text, 'x', sizeof text);
    EXPECT(NA_SM_Host_id_to_string(id, text) == NA_SUCCESS && strlen(text) < sizeof text);
    again = -1;
    EXPECT(NA_SM_String_to_host_id(text, &again) == NA_SUCCESS && NA_SM_Host_id_cmp(id, again));
    NA_SM_Host_id_copy(&again, id + 1);
    EXPECT(!NA_SM_Host_id_cmp(id, again));
    EXPECT(NA_SM_Host_id_to_string(INT_MAX, text) == NA_SUCCESS);
    EXPECT(strcmp(text, "2147483647") == 0);
    EXPECT(NA_SM_Host_id_to_string(LONG_MAX, text) == NA_OVERFLOW || LONG_MAX == INT_MAX);
    EXPECT(NA_SM_String_to_host_id("", &again) == NA_PROTOCOL_ERROR);
    EXPECT(NA_SM_String_to_host_id("12 monkeys", &again) == NA_PROTOCOL_ERROR);
    EXPECT(NA_SM_String_to_host_id(NULL, &again) == NA_INVALID_ARG);
    return 0;
}
