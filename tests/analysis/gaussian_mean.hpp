// SPDX-License-Identifier: BSD-3-Clause
//
// What tests of softmax moments are checked against: means over a normal variable, and the softmax of two keys.
#pragma once

#include <cmath>

namespace normplace::test {

// E h(s) for s ~ N(0, variance): a trapezoid sum, exact to rounding for h analytic in a strip of some width.
template <class Function>
double gaussian_mean(double variance, Function&& h) {
    double sum = 0.0;
    for (double z = -9.0; z <= 9.0; z += 0.05)
        sum += std::exp(-0.5 * z * z) * 0.05 * 0.3989422804014327 * h(std::sqrt(variance) * z);
    return sum;
}
inline double sigmoid(double s) { return 1.0 / (1.0 + std::exp(-s)); }

}  // namespace normplace::test
