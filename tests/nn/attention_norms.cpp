// SPDX-License-Identifier: BSD-3-Clause
//
// The norms inside attention by themselves: head by head, or of all heads. Their gradients are attention.cpp's.
#include <doctest/doctest.h>

#include <normplace/nn/attention_norms.hpp>

#include "gradient_check.hpp"

using namespace normplace;
using namespace normplace::test;

namespace {

using NormsOfTwoHeads = AttentionNorms<double>;
constexpr std::size_t heads_width = 6;

NormsOfTwoHeads norms_of_two_heads(const SublayerNorms& which) { return {which, 2, {.width = heads_width}}; }

/// Of entries first to last - 1 of each row.
void check_normalised(const Activations<double>& rows, std::size_t first, std::size_t last, bool normalised) {
    for (std::size_t r = 0; r < rows.size() / heads_width; ++r) {
        double mean = 0.0;
        for (std::size_t i = first; i < last; ++i) mean += rows.data()[r * heads_width + i];
        CHECK((std::abs(mean) < 1e-12) == normalised);
    }
}

}  // namespace

TEST_CASE("queries, keys and values are normalised head by head, each if it is asked for") {
    const NormsOfTwoHeads norms = norms_of_two_heads({.query = true, .value = true});
    NormsOfTwoHeads::Cache cache;
    Activations<double> query = random_activations(2, 3, heads_width, 1), key = query, value = query;
    const Activations<double> before = key;
    norms.forward_query(query, cache);
    norms.forward_key(key, cache);
    norms.forward_value(value, cache);
    check_normalised(before, 0, 3, false);
    for (const Activations<double>* normed : {&query, &value}) {
        check_normalised(*normed, 0, 3, true);
        check_normalised(*normed, 3, 6, true);
    }
    CHECK(key == before);
    CHECK(norms.query_norm.gain.size() == 3);
    CHECK(norms.key_norm.gain.size() == 0);
    CHECK_FALSE(norms.after_heads());
}

TEST_CASE("heads: a factor for each, and then a norm of all") {
    NormsOfTwoHeads scaled = norms_of_two_heads({.head_scale = true}),
                    both = norms_of_two_heads({.heads = true, .head_scale = true});
    scaled.head_scale[1] = both.head_scale[1] = -3.0;
    const Activations<double> heads = random_activations(2, 3, heads_width, 1);
    NormsOfTwoHeads::Cache cache, both_cache;
    scaled.forward_heads(heads, cache);
    both.forward_heads(heads, both_cache);
    for (std::size_t i = 0; i < heads.size(); ++i)
        CHECK(cache.mixed.data()[i] == (i % heads_width < 3 ? 1.0 : -3.0) * heads.data()[i]);
    Activations<double> normed;
    LayerNorm<double>::Cache norm_cache;
    both.heads_norm.forward(cache.mixed, normed, norm_cache);
    CHECK(both_cache.mixed == normed);
    CHECK(norms_of_two_heads({.heads = true}).heads_norm.gain.size() == heads_width);
}
