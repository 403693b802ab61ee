// SPDX-License-Identifier: BSD-3-Clause
//
// The learning rate of every step, counted from 1. The menu, with eta the peak and n the number of steps so far, which
// is t - 1 in step t:
//
//     constant(eta)                         eta
//     inverse_square_root(eta, T_warmup)    eta t / T_warmup up to step T_warmup, then eta sqrt(T_warmup / t)
//     step_decay(eta, gamma, every)         eta gamma^floor(n / every)
//     linear_decay(eta, floor, T)           from eta on a line that reaches the floor after T steps, then the floor
//     cosine_decay(eta, floor, T)           floor + (eta - floor) (1 + cos(pi n / T)) / 2 for T steps, then the floor
//
// Any of them `.with_warm_up(W)`: eta t / W up to step W, and then the schedule from its beginning.
//
//     const Schedule schedule = Schedule::cosine_decay(1e-3, 0.0, 10000).with_warm_up(500);
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <string>

#include <normplace/detail/check.hpp>
#include <normplace/train/require_number.hpp>

namespace normplace {

class Schedule {
public:
    /// PyTorch's ConstantLR at factor 1.
    static Schedule constant(double peak) { return {Kind::constant, "Schedule::constant", peak}; }

    /// Xiong et al. 2020 (arXiv:2002.04745), equation 1 and section 4; T_warmup = 1 is what they call no warm-up.
    /// Vaswani et al. 2017 (arXiv:1706.03762), equation 3, is eta = 1 / sqrt(D T_warmup).
    /// @throws std::invalid_argument as the others, and when there is no step to warm up in
    static Schedule inverse_square_root(double peak, std::uint64_t warm_up) {
        return Schedule(Kind::inverse_square_root, "Schedule::inverse_square_root", peak).with_warm_up(warm_up);
    }

    /// PyTorch's StepLR.
    /// @throws std::invalid_argument when gamma is not in (0, 1] or `every` is 0
    static Schedule step_decay(double peak, double gamma, std::uint64_t every) {
        detail::require_number("Schedule::step_decay", "gamma", gamma, gamma > 0.0 && gamma <= 1.0,
                               "a number in (0, 1]");
        return {Kind::step_decay, "Schedule::step_decay", peak, gamma, every};
    }

    /// PyTorch's LinearLR from factor 1 to floor / eta.
    /// @throws std::invalid_argument when the floor is above the peak or there are no steps
    static Schedule linear_decay(double peak, double floor, std::uint64_t steps) {
        return decay(Kind::linear_decay, "Schedule::linear_decay", peak, floor, steps);
    }

    /// Loshchilov and Hutter 2017 (arXiv:1608.03983), equation 5, without restarts; PyTorch's CosineAnnealingLR.
    /// @throws std::invalid_argument when the floor is above the peak or there are no steps
    static Schedule cosine_decay(double peak, double floor, std::uint64_t steps) {
        return decay(Kind::cosine_decay, "Schedule::cosine_decay", peak, floor, steps);
    }

    /// This schedule after `steps` steps in which the rate rises on a line to the peak; for inverse_square_root, with
    /// another T_warmup.
    Schedule with_warm_up(std::uint64_t steps) const {
        if (kind_ == Kind::inverse_square_root)
            detail::require_positive("Schedule::inverse_square_root", "warm-up", steps);
        Schedule schedule = *this;
        schedule.warm_up_ = steps;
        return schedule;
    }

    double peak() const { return peak_; }
    std::uint64_t warm_up() const { return warm_up_; }

    /// The learning rate of step `step`.
    /// @throws std::invalid_argument when step is 0
    double operator()(std::uint64_t step) const {
        detail::require(step > 0, "Schedule", "step is 0, expected steps to be counted from 1");
        if (step <= warm_up_) return peak_ * static_cast<double>(step) / static_cast<double>(warm_up_);
        const std::uint64_t before = step - warm_up_ - 1;
        const double progress = before < length_ ? static_cast<double>(before) / static_cast<double>(length_) : 1.0;
        switch (kind_) {
            case Kind::inverse_square_root:
                return peak_ * std::sqrt(static_cast<double>(warm_up_) / static_cast<double>(step));
            case Kind::step_decay: return peak_ * std::pow(low_, static_cast<double>(before / length_));
            case Kind::linear_decay: return std::lerp(peak_, low_, progress);
            case Kind::cosine_decay: return low_ + (peak_ - low_) * (1.0 + std::cos(std::numbers::pi * progress)) / 2.0;
            case Kind::constant: break;
        }
        return peak_;
    }

    /// "linear warm-up over 500 steps to 0.001, then cosine decay to 0 over 10000 steps"
    std::string description() const {
        const std::string peak = detail::number_text(peak_), low = detail::number_text(low_),
                          length = std::to_string(length_);
        std::string text;
        if (warm_up_ > 0) text = "linear warm-up over " + std::to_string(warm_up_) + " steps to " + peak + ", then ";
        const std::string from = warm_up_ > 0 ? "" : " from " + peak;
        switch (kind_) {
            case Kind::constant: return text + (warm_up_ > 0 ? "constant" : "constant " + peak);
            case Kind::inverse_square_root: return text + "inverse square root";
            case Kind::step_decay: return text + "step decay" + from + " by " + low + " every " + length + " steps";
            case Kind::linear_decay: return text + "linear decay" + from + " to " + low + " over " + length + " steps";
            case Kind::cosine_decay: break;
        }
        return text + "cosine decay" + from + " to " + low + " over " + length + " steps";
    }

private:
    enum class Kind { constant, inverse_square_root, step_decay, linear_decay, cosine_decay };

    Schedule(Kind kind, const char* who, double peak, double low = 0.0, std::uint64_t length = 1)
        : kind_(kind), peak_(peak), low_(low), length_(length) {
        detail::require_at_least_0(who, "peak", peak);
        detail::require_positive(who, "number of steps", length);
    }
    static Schedule decay(Kind kind, const char* who, double peak, double floor, std::uint64_t steps) {
        const Schedule schedule(kind, who, peak, floor, steps);
        detail::require(floor >= 0.0 && floor <= peak, who, [&] {
            return "floor is " + detail::number_text(floor) + ", expected a number from 0 to the peak, " +
                   detail::number_text(peak);
        });
        return schedule;
    }

    Kind kind_;
    double peak_;
    double low_;            // the floor, or gamma
    std::uint64_t length_;  // T, or `every`
    std::uint64_t warm_up_ = 0;
};

}  // namespace normplace
