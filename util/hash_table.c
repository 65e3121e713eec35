/* SPDX-License-Identifier: BSD-3-Clause */
/* Chains that are doubled when there are more pairs than chains. */
#include "mercury_hash_table.h"

#include <stdlib.h>

#define FIRST_SIZE 16U

struct pair {
    hg_hash_table_key_t key;
    hg_hash_table_value_t value;
    unsigned int hash;
    struct pair* next;
};

struct hg_hash_table {
    struct pair** chains;
    unsigned int size; /* of chains; a power of 2 */
    unsigned int pairs;
    hg_hash_table_hash_func_t hash;
    hg_hash_table_equal_func_t equal;
    hg_hash_table_key_free_func_t free_key;
    hg_hash_table_value_free_func_t free_value;
};

/* Spreads hashes whose low bits say little, as those of aligned pointers. */
static unsigned int spread(unsigned int hash) {
    return (hash ^ (hash >> 15)) * 0x9e3779b1U;
}

static struct pair** chain_of(const hg_hash_table_t* table, unsigned int hash) {
    return &table->chains[(hash >> 7) & (table->size - 1)];
}

/* Where the pair hangs, or where it would. */
static struct pair** find(const hg_hash_table_t* table, unsigned int hash,
                          hg_hash_table_key_t key) {
    struct pair** at = chain_of(table, hash);

    while (*at != NULL && ((*at)->hash != hash || table->equal((*at)->key, key) == 0))
        at = &(*at)->next;
    return at;
}

static void release(const hg_hash_table_t* table, hg_hash_table_key_t key,
                    hg_hash_table_value_t value) {
    if (table->free_key != NULL)
        table->free_key(key);
    if (table->free_value != NULL)
        table->free_value(value);
}

/* Out of memory only makes the chains longer. */
static void grow(hg_hash_table_t* table) {
    struct pair** old = table->chains;
    const unsigned int old_size = table->size;
    struct pair** chains = old_size > (1U << 24) ? NULL : calloc(old_size * 2, sizeof *chains);
    unsigned int i;

    if (chains == NULL)
        return;
    table->chains = chains;
    table->size = old_size * 2;
    for (i = 0; i < old_size; i++) {
        struct pair* pair = old[i];

        while (pair != NULL) {
            struct pair* next = pair->next;
            struct pair** chain = chain_of(table, pair->hash);

            pair->next = *chain;
            *chain = pair;
            pair = next;
        }
    }
    free(old);
}

hg_hash_table_t* hg_hash_table_new(hg_hash_table_hash_func_t hash_func,
                                   hg_hash_table_equal_func_t equal_func) {
    hg_hash_table_t* table;

    if (hash_func == NULL || equal_func == NULL)
        return NULL;
    table = calloc(1, sizeof *table);
    if (table == NULL)
        return NULL;
    table->chains = calloc(FIRST_SIZE, sizeof(struct pair*));
    if (table->chains == NULL) {
        free(table);
        return NULL;
    }
    table->size = FIRST_SIZE;
    table->hash = hash_func;
    table->equal = equal_func;
    return table;
}

void hg_hash_table_free(hg_hash_table_t* table) {
    unsigned int i;

    if (table == NULL)
        return;
    for (i = 0; i < table->size; i++) {
        while (table->chains[i] != NULL) {
            struct pair* pair = table->chains[i];

            table->chains[i] = pair->next;
            release(table, pair->key, pair->value);
            free(pair);
        }
    }
    free(table->chains);
    free(table);
}

void hg_hash_table_register_free_functions(hg_hash_table_t* table,
                                           hg_hash_table_key_free_func_t key_free_func,
                                           hg_hash_table_value_free_func_t value_free_func) {
    table->free_key = key_free_func;
    table->free_value = value_free_func;
}

int hg_hash_table_insert(hg_hash_table_t* table, hg_hash_table_key_t key,
                         hg_hash_table_value_t value) {
    const unsigned int hash = spread(table->hash(key));
    struct pair** at = find(table, hash, key);
    struct pair* pair = *at;

    if (pair != NULL) {
        const hg_hash_table_key_t old_key = pair->key;
        const hg_hash_table_value_t old_value = pair->value;

        /* The program may insert what is there already. */
        pair->key = key;
        pair->value = value;
        if (table->free_key != NULL && old_key != key)
            table->free_key(old_key);
        if (table->free_value != NULL && old_value != value)
            table->free_value(old_value);
        return 1;
    }
    pair = malloc(sizeof *pair);
    if (pair == NULL)
        return 0;
    if (table->pairs >= table->size)
        grow(table);
    at = chain_of(table, hash);
    pair->key = key;
    pair->value = value;
    pair->hash = hash;
    pair->next = *at;
    *at = pair;
    table->pairs++;
    return 1;
}

hg_hash_table_value_t hg_hash_table_lookup(hg_hash_table_t* table, hg_hash_table_key_t key) {
    const struct pair* pair = *find(table, spread(table->hash(key)), key);

    return pair == NULL ? HG_HASH_TABLE_NULL : pair->value;
}

int hg_hash_table_remove(hg_hash_table_t* table, hg_hash_table_key_t key) {
    struct pair** at = find(table, spread(table->hash(key)), key);
    struct pair* pair = *at;

    if (pair == NULL)
        return 0;
    *at = pair->next;
    table->pairs--;
    release(table, pair->key, pair->value);
    free(pair);
    return 1;
}

unsigned int hg_hash_table_num_entries(hg_hash_table_t* table) {
    return table->pairs;
}

/* ---- iteration: next_entry is the pair to return next, next_chain the chain behind its own ----
 */

static void seek(hg_hash_table_iter_t* iter) {
    while (iter->next_entry == NULL && iter->next_chain < iter->hash_table->size)
        iter->next_entry = iter->hash_table->chains[iter->next_chain++];
}

void hg_hash_table_iterate(hg_hash_table_t* table, hg_hash_table_iter_t* iter) {
    iter->hash_table = table;
    iter->next_entry = NULL;
    iter->next_chain = 0;
    seek(iter);
}

int hg_hash_table_iter_has_more(hg_hash_table_iter_t* iterator) {
    return iterator->next_entry != NULL;
}

hg_hash_table_value_t hg_hash_table_iter_next(hg_hash_table_iter_t* iterator) {
    const struct pair* pair = iterator->next_entry;

    if (pair == NULL)
        return HG_HASH_TABLE_NULL;
    iterator->next_entry = pair->next;
    seek(iterator);
    return pair->value;
}
