// SPDX-License-Identifier: BSD-3-Clause
//
// A place in the stack is counted from 1, and one outside the stack is refused with its number.
#include <doctest/doctest.h>

#include <normplace/placement/depth.hpp>

using namespace normplace;

TEST_CASE("a layer of the stack is accepted, first and last included") {
    CHECK_NOTHROW(Depth{}.check());
    CHECK_NOTHROW(Depth{.layer = 1, .layers = 12}.check());
    CHECK_NOTHROW(Depth{.layer = 12, .layers = 12}.check());
}

TEST_CASE("a layer outside the stack is refused, with the values") {
    CHECK_THROWS_WITH_AS(Depth({.layer = 0, .layers = 12}).check(), "Depth: layer 0 is not one of the layers 1 to 12",
                         std::invalid_argument);
    CHECK_THROWS_WITH_AS(Depth({.layer = 13, .layers = 12}).check(), "Depth: layer 13 is not one of the layers 1 to 12",
                         std::invalid_argument);
}
