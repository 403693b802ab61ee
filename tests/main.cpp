// SPDX-License-Identifier: BSD-3-Clause
//
// doctest's main, compiled once for all test programs.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
