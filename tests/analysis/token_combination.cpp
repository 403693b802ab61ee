// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <normplace/analysis/token_combination.hpp>

using namespace normplace;

namespace {

// Two tokens with two streams x, y and two more sources u, v.
struct Sources : TokenSources {
    explicit Sources(const TokenLayout& layout) : TokenSources(layout) {
        together = StreamKernels(2);
        together(0, 0) = {2.0, 1.0, 1.0, 3.0};
        together(0, 1) = {0.5, 0.25, 0.125, 0.75};  // E x_0 y_1 is not E x_1 y_0
        together(1, 0) = {0.5, 0.125, 0.25, 0.75};
        together(1, 1) = {5.0, 4.0, 4.0, 6.0};
        apart = {{7.0, 1.5, 1.5, 8.0}, {9.0, 2.5, 2.5, 10.0}};
    }
};

}  // namespace

TEST_CASE("covariances of linear combinations: every pair of streams, and each other source with itself") {
    const TokenLayout layout = TokenLayout::by_position(1, 2);
    const Sources sources(layout);
    TokenCombination a(sources.size()), b(sources.size());
    a[0] = {1.0, 2.0};  // x, by token
    a[2] = {3.0, 1.0};  // u
    b[1] = {0.5, 4.0};  // y
    b[2] = {2.0, 1.0};  // u
    b[3] = {1.0, 1.0};  // v, which a has not
    const TokenKernel both = sources.between(a, b);
    CHECK(both[0] == 1.0 * 0.5 * 0.5 + 3.0 * 2.0 * 7.0);
    CHECK(both[1] == 1.0 * 4.0 * 0.25 + 3.0 * 1.0 * 1.5);   // token 0 of a, token 1 of b
    CHECK(both[2] == 2.0 * 0.5 * 0.125 + 1.0 * 2.0 * 1.5);  // token 1 of a, token 0 of b
    CHECK(both[3] == 2.0 * 4.0 * 0.75 + 1.0 * 1.0 * 8.0);

    a.add(2.0, b);
    const TokenKernel all = sources.between(a, a);
    const PerToken squares = sources.squares(a);
    // x + y (2 * 0.5) at token 0, with E x y twice; u 3 + 2 * 2; v 2.
    CHECK(squares[0] == 2.0 + 2.0 * 0.5 + 5.0 + 49.0 * 7.0 + 4.0 * 9.0);
    for (std::size_t i = 0; i < 2; ++i) CHECK(squares[i] == all[layout.diagonal(i)]);
}

TEST_CASE("a source that is not there stays so, and is 0") {
    const TokenLayout layout = TokenLayout::by_position(1, 2);
    const Sources sources(layout);
    TokenCombination none(sources.size()), x = sources.only(0);
    for (const double covariance : sources.between(none, x)) CHECK(covariance == 0.0);
    none.scale(3.0);
    none.change([](double& a, std::size_t) { a += 1.0; });
    none.add(1.0, TokenCombination(sources.size()));
    for (std::size_t p = 0; p < none.size(); ++p) CHECK(none[p].size() == 0);
    none.add(3.0, x);
    CHECK(none[0][1] == 3.0);
    CHECK(none[1].size() == 0);
}

TEST_CASE("factors are scaled, and changed token by token, in all sources") {
    const TokenLayout layout = TokenLayout::by_position(1, 2);
    const Sources sources(layout);
    TokenCombination e = sources.only(0);
    e.add(1.0, sources.only(3));
    e.scale(0.5);
    e.change([](double& a, std::size_t i) { a *= static_cast<double>(i + 1); });
    for (std::size_t p = 0; p < 4; p += 3) {
        CHECK(e[p][0] == 0.5);
        CHECK(e[p][1] == 1.0);
    }
}
