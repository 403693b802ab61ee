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

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include <normplace/analysis/first_step_report.hpp>
#include <normplace/placement/placement.hpp>

namespace normplace {

namespace syntax {

/// Whether every way from x to the root that does not lead through f passes a norm.
constexpr bool skip_is_normalised(Stream) { return false; }
template <class Input>
constexpr bool skip_is_normalised(const Sublayer<Input>&) {
    return true;
}
template <Label slot, class Input>
constexpr bool skip_is_normalised(const Norm<slot, Input>&) {
    return true;
}
template <class Left, class Right>
constexpr bool skip_is_normalised(const Sum<Left, Right>& e) {
    return skip_is_normalised(e.left) && skip_is_normalised(e.right);
}
template <class Input>
constexpr bool skip_is_normalised(const Scaled<Input>& e) {
    return skip_is_normalised(e.input);
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

/// What was trained to find the rules: byte models of English text, batches of 8 x 64 tokens, Adam, 120 to 800 steps; a
/// training has failed when it ends no better than byte frequencies alone allow.
///
/// Placements whose skip path is normalised: the largest learning rate that trains without warm-up was 0.8 to 3.0 times
/// the predicted eta_half (Post-LN 3.0 at 3 layers falling to 0.8 at 12, DeepNorm 0.85 to 1.1 at 6 to 24).
inline constexpr double largest_over_eta_half = 1.5;
/// Above it, training succeeds when the learning rate rises to the wanted one over this many steps for each multiple of
/// it.
inline constexpr double steps_per_multiple = 25.0;
/// The largest multiple that was tried.
inline constexpr double largest_multiple = 8.0;
/// Placements whose skip path is not normalised trained without warm-up at this multiple of eta_half.
inline constexpr double recovered_over_eta_half = 10.0;
inline constexpr std::size_t fewest_layers = 3, most_layers = 24, smallest_width = 64, largest_width = 512;

}  // namespace warm_up

namespace detail {

/// Three digits are more than the rules are worth.
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
        advice.caveats.push_back("the rule was validated at " + std::to_string(warm_up::fewest_layers) + " to " +
                                 std::to_string(warm_up::most_layers) + " layers and width " +
                                 std::to_string(warm_up::smallest_width) + " to " +
                                 std::to_string(warm_up::largest_width) + ", not at " + std::to_string(m.layers) +
                                 " and " + std::to_string(m.width));
    const double left = 1.0 - report.initial.hidden.token_correlation.value;
    if (left < 0.01)
        advice.caveats.push_back("tokens are all but alike before the first step: of the last hidden state 1 - rho = " +
                                 digits(left) + ", so that learning is slow at any learning rate");
    for (const std::string& warning : report.warnings) advice.caveats.push_back(warning);
    if (report.rule.weight_decay > 0.1) advice.caveats.push_back("the rule was validated without weight decay");
}

inline std::string advice_for_all(const FirstStepReport& report, bool has_norms, const WarmUpAdvice& advice) {
    const std::string half =
        "a first step of " + digits(advice.eta_half) + " takes away half of the differences between tokens";
    if (std::isinf(advice.eta_half)) return "no first step takes away half of the differences between tokens";
    if (!has_norms) return half + "; what that means for training without any norm is not known";
    if (!report.rule.sign) return half + "; what that means for training is known for Adam only";
    if (advice.recovers) return half + ", and the skip path, which is never normalised, brings them back";
    return half +
           " for good, since the skip path is normalised: without warm-up it trains up to a learning rate of about " +
           digits(advice.largest_learning_rate) + ", within a factor of 2";
}

inline WarmUpAdvice warm_up_advice(const FirstStepReport& report, bool recovers, bool has_norms, double learning_rate) {
    WarmUpAdvice advice;
    advice.recovers = recovers;
    advice.eta_half = report.eta_half.value;
    if (std::isnan(advice.eta_half)) {
        advice.sentence = "there is no first step to judge: tokens do not differ, or the stream overflows";
        return advice;
    }
    const bool has_rule = report.rule.sign && has_norms && std::isfinite(advice.eta_half);
    if (has_rule && !recovers) advice.largest_learning_rate = warm_up::largest_over_eta_half * advice.eta_half;
    advice.sentence = advice_for_all(report, has_norms, advice);
    add_caveats(report, advice);
    if (std::isnan(learning_rate) || !has_rule) return advice;

    const std::string wanted = "; at the wanted " + digits(learning_rate) + " ";
    if (recovers) {
        const double multiple = learning_rate / advice.eta_half;
        if (multiple <= warm_up::recovered_over_eta_half) {
            advice.warm_up_steps = 0.0;
            advice.sentence += wanted + "it needs no warm-up";
        } else {
            advice.sentence += wanted + "nothing is known, because only " + digits(warm_up::recovered_over_eta_half) +
                               " times the first step's rate has been tried, and this is " + digits(multiple) +
                               " times";
        }
        return advice;
    }
    const double multiple = learning_rate / advice.largest_learning_rate;
    if (multiple <= 1.0) {
        advice.warm_up_steps = 0.0;
        advice.sentence += wanted + "it needs none";
    } else if (multiple <= warm_up::largest_multiple) {
        advice.warm_up_steps = std::ceil(warm_up::steps_per_multiple * multiple);
        advice.sentence += wanted + "let it warm up over " + digits(advice.warm_up_steps) + " steps";
    } else {
        advice.sentence += wanted + "no number of warm-up steps has been validated, because that is " +
                           digits(multiple) + " times as much";
    }
    return advice;
}

}  // namespace detail

/// @param learning_rate the wanted one; NaN: none in particular
/// @throws std::invalid_argument when the report is of another placement, or the learning rate is not positive
template <class P>
WarmUpAdvice warm_up_advice(const FirstStepReport& report, double learning_rate = not_available) {
    static_assert(explain_placement<P>());
    if (report.placement != P::name)
        throw std::invalid_argument("warm_up_advice: the report is of " + report.placement + ", not of " +
                                    std::string(P::name));
    if (!std::isnan(learning_rate) && !(learning_rate > 0.0 && std::isfinite(learning_rate)))
        throw std::invalid_argument("warm_up_advice: the learning rate is " + std::to_string(learning_rate) +
                                    ", expected a positive finite number");
    return detail::warm_up_advice(report, !syntax::skip_is_normalised(P::formula), norm_count<P> > 0 || P::final_norm,
                                  learning_rate);
}

}  // namespace normplace
