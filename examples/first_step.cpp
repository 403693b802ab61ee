// SPDX-License-Identifier: BSD-3-Clause
//
// How large may the first step be, and does Post-LN need warm-up? Answered without building anything.
#include <iostream>
#include <normplace/analysis/first_step.hpp>
#include <normplace/analysis/warm_up_advice.hpp>
#include <normplace/placement/catalogue.hpp>

namespace np = normplace;

int main() {
    const np::ReferenceModel model{.layers = 6, .width = 128, .heads = 4, .feed_forward = 512};

    const np::FirstStepReport report = np::predict_first_step<np::PostLN>(model, np::StepRule::adam());
    const np::WarmUpAdvice advice = np::warm_up_advice<np::PostLN>(report, 1e-3);
    std::cout << advice.sentence << '\n';

    // Twice the width, half the step.
    np::ReferenceModel wider = model;
    wider.width *= 2, wider.feed_forward *= 2;
    const double there = np::predict_first_step<np::PostLN>(wider, np::StepRule::adam()).eta_half.value;
    return advice.warm_up_steps > 0.0 && there > 0.45 * advice.eta_half && there < 0.55 * advice.eta_half ? 0 : 1;
}
