// SPDX-License-Identifier: BSD-3-Clause
//
// The block of any placement: one type, chosen at run time, that does what ResidualBlock does for the placement's type.
// What a formula computes is residual_block.cpp's.
#include <doctest/doctest.h>

#include <normplace/nn/any_block.hpp>
#include <normplace/nn/any_norm.hpp>
#include <normplace/nn/feed_forward.hpp>
#include <normplace/nn/residual_block.hpp>
#include <normplace/placement/catalogue.hpp>

#include "gradient_check.hpp"

using namespace normplace;
using namespace normplace::test;

namespace {

using Branch = FeedForward<double>;
using BranchBlock = AnyBlock<Branch, LayerNorm<double>>;

template <class P>
void check_same_as_its_type() {
    INFO("placement ", std::string(P::name));
    const Depth depth{.layer = 2, .layers = 5};
    const Branch::Options options{.width = 4, .feed_forward = 6};
    BranchBlock any(any_placement<P>, options, depth, {});
    ResidualBlock<P, Branch> own(options, depth);
    randomize_parameters(any, 7);
    randomize_parameters(own, 7);
    const Activations<double> x = random_activations(2, 3, 4, 1);
    Activations<double> y, expected;
    BranchBlock::Cache cache, own_cache;
    any.forward(x, y, cache);
    own.forward(x, expected, own_cache);
    CHECK(y == expected);
    CHECK(any.depth().sublayer == SublayerKind::feed_forward);
    CHECK(any.streams() == 1);
}

}  // namespace

TEST_CASE("a block by value is the block of the type") {
    check_same_as_its_type<PreLN>();
    check_same_as_its_type<DeepNorm>();
    check_same_as_its_type<MixLN>();
    check_same_as_its_type<LayerScale>();
}

TEST_CASE("a placement that is made for one kind of norm refuses another, and takes it from AnyNorm") {
    const Branch::Options options{.width = 4, .feed_forward = 6};
    CHECK_THROWS_WITH_AS(
        BranchBlock(any_placement<NGPT>, options, {}, {}),
        "ResidualBlock: ngpt is made for unit-norm, and the norm is layer-norm; AnyNorm takes that kind by itself",
        std::invalid_argument);
    CHECK_NOTHROW(AnyBlock<Branch, UnitNorm<double>>(any_placement<NGPT>, options, {}, {}));
    CHECK_NOTHROW(AnyBlock<Branch, AnyNorm<double>>(any_placement<NGPT>, options, {}, {}));
}

TEST_CASE("the end of a stack: the output's formula, and a norm that is called final") {
    const auto output = AnyBlock<NoSublayer<double>, LayerNorm<double>>::output(
        any_placement<ResiDual>, {.width = 4}, {.layer = 3, .layers = 3}, {.width = 4});
    REQUIRE(output.norms.size() == 1);
    CHECK(output.norms.names[0] == "final_norm");
    const std::vector<Activations<double>> x{random_activations(1, 2, 4, 1), random_activations(1, 2, 4, 2)};
    std::vector<Activations<double>> y(1);
    decltype(output)::Cache cache;
    output.forward(x, y, cache);
    Activations<double> normed;
    LayerNorm<double>::Cache norm_cache;
    output.norms[0].forward(x[1], normed, norm_cache);
    for (std::size_t i = 0; i < normed.size(); ++i)
        CHECK(y[0].data()[i] == doctest::Approx(x[0].data()[i] + normed.data()[i]));
}
