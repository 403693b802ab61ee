// SPDX-License-Identifier: BSD-3-Clause
//
// Two translation units that include everything link into one program, and mean the same things by the same names.
#include <doctest/doctest.h>

#include "shared.hpp"

Addresses addresses_in_two();
double run_in_two();

TEST_CASE("constants and functions are the same objects in both units") { CHECK(addresses() == addresses_in_two()); }

TEST_CASE("both units compute the same") { CHECK(run() == run_in_two()); }
