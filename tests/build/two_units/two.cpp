// SPDX-License-Identifier: BSD-3-Clause
//
// The second translation unit that includes everything.
#include "shared.hpp"

Addresses addresses_in_two() { return addresses(); }
double run_in_two() { return run(); }
