// SPDX-License-Identifier: BSD-3-Clause
//
// Does this placement need learning-rate warm-up, and how much? From the first step's eta_half and one property of the
// formula: whether the skip path is ever normalised.
//
//     WarmUpAdvice advice = warm_up_advice<PostLN>(predict_first_step<PostLN>(model, StepRule::adam()), 1e-3);
//     std::cout << advice.sentence;
//
// A step of size eta_half takes away half of the differences between tokens. Where the skip path passes a norm the
// stream divides by what all tokens now share, and the next layers hand on less and less of what they do not: the
// collapse lasts. Where it passes none, x still holds the tokens and the branches recover them.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include <normplace/analysis/first_step_report.hpp>
#include <normplace/placement/catalogue.hpp>

namespace normplace {

namespace syntax {

/// Whether every way from x to the result that does not lead through f passes a norm, in some block at least.
constexpr bool skip_is_normalised(const Formula& formula) {
    std::array<bool, Formula::most_nodes> normalised{};  // operands stand before what uses them
    for (std::size_t i = 0; i < formula.size; ++i) {
        const Node& node = formula.nodes[i];
        switch (node.kind) {
            case Node::Kind::stream: normalised[i] = false; break;
            case Node::Kind::sublayer:
            case Node::Kind::norm: normalised[i] = true; break;
            case Node::Kind::sum: normalised[i] = normalised[node.first] && normalised[node.second]; break;
            case Node::Kind::choice:  // some blocks are the one and some the other, and one is enough
                normalised[i] = normalised[node.first] || normalised[node.second];
                break;
            case Node::Kind::scaled:
            case Node::Kind::gated: normalised[i] = normalised[node.first]; break;
        }
    }
    return normalised[formula.results[0]];
}

}  // namespace syntax

struct WarmUpAdvice {
    bool recovers = false;                         ///< the skip path is never normalised
    double eta_half = not_available;               ///< of the report
    double largest_learning_rate = not_available;  ///< that trains without warm-up; NaN where there is no number
    double warm_up_steps = not_available;  ///< for the wanted learning rate: 0: none needed, NaN: there is no number
    std::string sentence;
    std::vector<std::string> caveats;  ///< where the model leaves the range in which the rules were validated
};

namespace warm_up {

/// What was trained to find the rules: byte models of English text, batches of 8 x 64 tokens, Adam, 120 to 800 steps,
/// one seed; a training has failed when it ends no better than byte frequencies alone allow.
///
/// Placements whose skip path is normalised: the largest learning rate that trains without warm-up was 0.8 to 3.0 times
/// the predicted eta_half (Post-LN 3.0 at 3 layers falling to 0.8 at 12, DeepNorm 0.9 to 1.4 at 3 to 24).
inline constexpr double largest_over_eta_half = 1.5;
/// At m times that, Post-LN of 3 to 6 layers trained with a linear warm-up over this many steps times m^2. At 6 layers
/// and width 128, m = 2.8 took between 25 and 50 steps, m = 5.6 between 100 and 200, and at m = 11 not even 400 were
/// enough; at width 64, m = 2 took more than 32. At 12 layers half of it was too little, and more was not tried;
/// DeepNorm did not train at m = 1.5 with 200 steps.
inline constexpr double steps_per_square = 16.0;
inline constexpr double largest_multiple = 6.0;
inline constexpr std::size_t most_layers_with_warm_up = 6;
/// Placements whose skip path is not normalised trained without warm-up at this multiple of eta_half.
inline constexpr double recovered_over_eta_half = 10.0;
inline constexpr std::size_t fewest_layers = 3, most_layers = 24, smallest_width = 64, largest_width = 512;

}  // namespace warm_up

namespace detail {

/// What the rules ask of a formula.
struct WarmUpTraits {
    bool recovers;  // the skip path is never normalised
    bool has_norms;
    bool has_warm_up_length;  // the rule for the number of steps was validated for it
};

/// Two digits are more than the rules are worth.
inline std::string digits(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.2g", value);
    return text;
}

inline void add_caveats(const FirstStepReport& report, WarmUpAdvice& advice) {
    const ReferenceModel& m = report.model;
    const auto outside = [](std::size_t value, std::size_t low, std::size_t high) {
        return value < low || value > high;
    };
    if (outside(m.layers, warm_up::fewest_layers, warm_up::most_layers) ||
        outside(m.width, warm_up::smallest_width, warm_up::largest_width))
        advice.caveats.push_back("the rules were validated at " + std::to_string(warm_up::fewest_layers) + " to " +
                                 std::to_string(warm_up::most_layers) + " layers and width " +
                                 std::to_string(warm_up::smallest_width) + " to " +
                                 std::to_string(warm_up::largest_width) + ", not at " + std::to_string(m.layers) +
                                 " and " + std::to_string(m.width));
    const double left = 1.0 - report.initial.hidden.token_correlation.value;
    if (left < 0.01)
        advice.caveats.push_back("tokens are all but alike before the first step, 1 - rho = " + digits(left) +
                                 " of the last hidden state, so that learning is slow at any learning rate");
    for (const std::string& warning : report.warnings) advice.caveats.push_back(warning);
    if (report.rule.weight_decay > 0.1) advice.caveats.push_back("the rules were validated without weight decay");
}

/// The sentence up to the wanted learning rate.
inline std::string first_step_sentence(const FirstStepReport& report, const WarmUpTraits& traits,
                                       const WarmUpAdvice& advice) {
    if (std::isinf(advice.eta_half)) return "no first step takes away half of the differences between tokens";
    const std::string half =
        "a first step of " + digits(advice.eta_half) + " takes away half of the differences between tokens";
    if (!report.rule.sign) return half + "; what that means for training is known for Adam only";
    if (!traits.has_norms) return half + "; what that means for training without any norm is not known";
    if (traits.recovers) return half + ", and the skip path, which is never normalised, brings them back";
    return half + " for good, since the skip path is normalised: without warm-up it trains up to a learning rate of " +
           digits(advice.largest_learning_rate) + ", give or take a factor of 2";
}

/// What to do at the wanted learning rate, for which there are rules.
inline std::string wanted_sentence(double learning_rate, std::size_t layers, const WarmUpTraits& traits,
                                   WarmUpAdvice& advice) {
    const double limit =
        traits.recovers ? warm_up::recovered_over_eta_half * advice.eta_half : advice.largest_learning_rate;
    const double multiple = learning_rate / limit;
    const std::string wanted = "; at the wanted " + digits(learning_rate) + " ";
    if (multiple <= 1.0) {
        advice.warm_up_steps = 0.0;
        return wanted + "it needs no warm-up";
    }
    if (traits.recovers)
        return wanted + "nothing is known, since " + digits(limit) + " is the most that has been tried";
    if (!traits.has_warm_up_length || layers > warm_up::most_layers_with_warm_up)
        return wanted + "it needs warm-up, and how much is known for norm(x + f(x)) of up to " +
               std::to_string(warm_up::most_layers_with_warm_up) + " layers only";
    if (multiple > warm_up::largest_multiple)
        return wanted + "no warm-up has been found to help, that being " + digits(multiple) + " times as much";
    advice.warm_up_steps = std::ceil(warm_up::steps_per_square * multiple * multiple);
    return wanted + "warm up over " + std::to_string(static_cast<long>(advice.warm_up_steps)) + " steps";
}

inline WarmUpAdvice warm_up_advice(const FirstStepReport& report, const WarmUpTraits& traits, double learning_rate) {
    WarmUpAdvice advice;
    advice.recovers = traits.recovers;
    advice.eta_half = report.eta_half.value;
    if (std::isnan(advice.eta_half)) {
        advice.sentence = "there is no first step to judge: tokens do not differ, or the stream overflows";
        return advice;
    }
    const bool has_rule = report.rule.sign && traits.has_norms && std::isfinite(advice.eta_half);
    if (has_rule && !traits.recovers) advice.largest_learning_rate = warm_up::largest_over_eta_half * advice.eta_half;
    advice.sentence = first_step_sentence(report, traits, advice);
    if (has_rule && !std::isnan(learning_rate))
        advice.sentence += wanted_sentence(learning_rate, report.model.layers, traits, advice);
    add_caveats(report, advice);
    return advice;
}

}  // namespace detail

/// @param learning_rate the wanted one; NaN: none in particular
/// @throws std::invalid_argument when the report is of another placement, or the learning rate is not positive
inline WarmUpAdvice warm_up_advice(const AnyPlacement& placement, const FirstStepReport& report,
                                   double learning_rate = not_available) {
    if (report.placement != placement.name)
        throw std::invalid_argument("warm_up_advice: the report is of " + report.placement + ", not of " +
                                    std::string(placement.name));
    if (!std::isnan(learning_rate) && !(learning_rate > 0.0 && std::isfinite(learning_rate)))
        throw std::invalid_argument("warm_up_advice: the learning rate is " + std::to_string(learning_rate) +
                                    ", expected a positive finite number");
    const detail::WarmUpTraits traits{!syntax::skip_is_normalised(placement.formula),
                                      syntax::count_norms(placement.formula) > 0 || placement.final_norm(),
                                      placement.formula == PostLN::formula};
    return detail::warm_up_advice(report, traits, learning_rate);
}
template <class P>
WarmUpAdvice warm_up_advice(const FirstStepReport& report, double learning_rate = not_available) {
    static_assert(explain_placement<P>());
    return warm_up_advice(any_placement<P>, report, learning_rate);
}

}  // namespace normplace
