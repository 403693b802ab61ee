// SPDX-License-Identifier: BSD-3-Clause
//
// Which norms stand inside a sublayer: none unless somebody asks, and each placement as its paper has it.
#include <doctest/doctest.h>

#include <normplace/placement/catalogue.hpp>
#include <normplace/placement/sublayer_norms.hpp>

using namespace normplace;

TEST_CASE("none unless it is asked for, and each flag counts") {
    constexpr SublayerNorms none;
    static_assert(!none.query && !none.key && !none.value && !none.query_key_scale && !none.heads && !none.head_scale &&
                  !none.hidden);
    static_assert(none == SublayerNorms{});
    for (const SublayerNorms& one :
         {SublayerNorms{.query = true}, SublayerNorms{.key = true}, SublayerNorms{.value = true},
          SublayerNorms{.query_key_scale = true}, SublayerNorms{.heads = true}, SublayerNorms{.head_scale = true},
          SublayerNorms{.hidden = true}})
        CHECK_FALSE(one == none);
}

TEST_CASE("the catalogue's, as the papers have them") {
    const Depth attention{1, 4, SublayerKind::attention};
    CHECK(QKNorm::inside(attention) == SublayerNorms{.query = true, .key = true});
    CHECK(NGPT::inside(attention) == SublayerNorms{.query = true, .key = true, .query_key_scale = true});
    CHECK(SubLN::inside(attention) == SublayerNorms{.heads = true, .hidden = true});
    CHECK(NormFormer::inside(attention) == SublayerNorms{.head_scale = true, .hidden = true});
    CHECK(HybridNorm::inside(attention) == SublayerNorms{.query = true, .key = true, .value = true});
    CHECK(HybridNormStar::inside(attention) == HybridNorm::inside(attention));
    CHECK_FALSE(any_placement<PreLN>.has_norms_inside());
}
