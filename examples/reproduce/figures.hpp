// SPDX-License-Identifier: BSD-3-Clause
//
// Figures 2 to 5 of Xiong et al. 2020 (arXiv:2002.04745), each beside what the paper says of it.
#pragma once

#include "experiments.hpp"
#include "figure.hpp"

namespace reproduce {

/// Tells `experiments` which runs the figures need.
void want_runs(const Setting& setting, const std::vector<int>& figures, Experiments& experiments);

/// From the runs' outcomes. Figure 3's gradients at initialization are measured here.
std::vector<Figure> make_figures(const Setting& setting, const std::vector<int>& figures,
                                 const Experiments& experiments);

}  // namespace reproduce
