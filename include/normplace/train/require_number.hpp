// SPDX-License-Identifier: BSD-3-Clause
//
// Hyper-parameters are refused in one form: "Adam: beta1 is 1.2, expected a number in [0, 1)".
#pragma once

#include <cmath>

#include <normplace/detail/check.hpp>

namespace normplace::detail {

inline void require_number(const char* who, const char* what, double value, bool valid, const char* expected) {
    require(valid, who, [&] { return std::string(what) + " is " + number_text(value) + ", expected " + expected; });
}

inline void require_at_least_0(const char* who, const char* what, double value) {
    require_number(who, what, value, value >= 0.0 && std::isfinite(value), "a finite number of at least 0");
}

inline void require_above_0(const char* who, const char* what, double value) {
    require_number(who, what, value, value > 0.0 && std::isfinite(value), "a finite number above 0");
}

/// A decay rate of an average, [0, 1).
inline void require_rate(const char* who, const char* what, double value) {
    require_number(who, what, value, value >= 0.0 && value < 1.0, "a number in [0, 1)");
}

}  // namespace normplace::detail
