// SPDX-License-Identifier: BSD-3-Clause
//
// A project that only predicts, and has no tensor library. Exits with 1 when something is wrong.
#include <normplace/analysis.hpp>

#include <cstdio>

namespace np = normplace;

int main() {
    np::ReferenceModel model{.layers = 12};
    const double pre = np::predict<np::PreLN>(model).layers.back().w2.norm;
    const double post = np::predict<np::PostLN>(model).layers.back().w2.norm;
    const bool right = pre > 0.0 && post > pre;
    std::printf("last gradient: Pre-LN %g, Post-LN %g: %s\n", pre, post, right ? "right" : "WRONG");
    return right ? 0 : 1;
}
