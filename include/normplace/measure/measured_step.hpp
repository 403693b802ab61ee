// SPDX-License-Identifier: BSD-3-Clause
//
// One seed's first step on the real blocks: a network, the update of each of its parameters, and what the next batch
// sees after steps of any size. The definitions are those of `measure_first_step`.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numbers>
#include <span>
#include <vector>

#include <normplace/analysis/first_step_report.hpp>
#include <normplace/measure/read_gradients.hpp>
#include <normplace/measure/reference_network.hpp>
#include <normplace/train/parameter_entries.hpp>

namespace normplace::detail {

/// One seed's first step, on a network and a copy of its parameters.
template <class T>
class MeasuredStep {
public:
    MeasuredStep(const AnyPlacement& placement, const ReferenceModel& model, bool with_tokens)
        : network_(placement, model, with_tokens, branch_squares(placement, model, {}, 0)),
          parameters_(network_.stack_parameters()),
          start_(entry_count(parameters_)),
          ahead_(model.batch * model.sequence * model.width) {
        keep_parameters();
    }

    /// Draws the network, takes its first batch's gradient, and puts the next batch before it.
    /// @param texts the two, or null for Gaussian tokens
    void prepare(std::uint64_t seed, const TokenBatch* texts, const StepRule& rule) {
        // Norms and biases are not drawn, and the last seed's steps have moved them.
        copy_parameters([](std::span<T> value, T* start) { std::copy_n(start, value.size(), value.begin()); });
        network_.draw_weights(seed);
        next_batch(texts);
        take_gradient(rule);
        next_batch(texts ? texts + 1 : nullptr);
        read(0.0, initial_);
    }

    void read(double eta, SteppedNetwork& stepped) {
        step(eta);
        stepped.sublayers.resize(2 * network_.model().layers);
        const auto& hidden = network_.forward([&](std::size_t l, SublayerKind kind, const Activations<T>& stream) {
            read_stream(stream, stepped.sublayers[2 * l + (kind == SublayerKind::attention ? 0 : 1)]);
        });
        read_stream(hidden, stepped.hidden);
    }

    /// Before the step.
    const SteppedNetwork& initial() const { return initial_; }

    double response() {
        if (squared_update_ == 0.0) return 0.0;
        // Where rounding and curvature leave a central difference about equally wrong.
        const double wanted = std::cbrt(static_cast<double>(std::numeric_limits<T>::epsilon())) *
                              std::sqrt(initial_.hidden.second_moment.value);
        double eta = 1e-4 * burying_step(), found = not_available;
        for (int attempt = 0; attempt < 8; ++attempt) {
            const double moved = change(eta);
            found = moved / eta;
            if (moved > 0.5 * wanted && moved < 2.0 * wanted) break;
            eta *= std::isfinite(moved) ? std::clamp(wanted / moved, 1e-3, 1e3) : 1e-3;
        }
        return found;
    }

    double eta_half(double response) {
        constexpr double never = std::numeric_limits<double>::infinity();
        const double half = 0.5 * (1.0 - initial_.hidden.token_correlation.value), largest = 100.0 * burying_step();
        if (!(half > 0.0) || std::isnan(response)) return not_available;
        if (response == 0.0) return never;
        double low = 0.0, high = 0.02 * std::sqrt(initial_.hidden.second_moment.value) / response;
        for (double left = differences(high); !(left <= half); left = differences(high)) {
            if (!std::isfinite(left) || !(high < largest)) return never;
            low = high;
            high = std::min(high * std::numbers::sqrt2, largest);
        }
        while (low == 0.0 && high > 0.0) {
            const double lower = high / std::numbers::sqrt2;
            (differences(lower) <= half ? high : low) = lower;
        }
        while (high > 1.002 * low) {
            const double middle = std::sqrt(low * high);
            (differences(middle) <= half ? high : low) = middle;
        }
        return std::sqrt(low * high);
    }

private:
    void next_batch(const TokenBatch* text) {
        if (text) network_.read_batch(*text);
        else network_.draw_batch();
    }

    /// `copy(value, start)` for each parameter and its place in start_.
    template <class Copy>
    void copy_parameters(const Copy& copy) {
        for_entries(parameters_, 0, start_.size(),
                    [&](const Parameter<T>& parameter, std::size_t, std::size_t, std::size_t at) {
                        copy(parameter.value, start_.data() + at);
                    });
    }

    void keep_parameters() {
        copy_parameters([](std::span<T> value, T* start) { std::copy(value.begin(), value.end(), start); });
    }

    /// Leaves the updates where the gradients were.
    void take_gradient(const StepRule& rule) {
        network_.forward();
        network_.loss(static_cast<double>(network_.token_count()));
        network_.zero_gradients();
        network_.backward();
        keep_parameters();
        weight_decay_ = rule.weight_decay;
        squared_start_ = squared_update_ = 0.0;
        for (const Parameter<T>& parameter : parameters_) {
            const bool stepped = rule.vectors || parameter.shape.size() > 1;
            for (T& entry : parameter.gradient)
                entry = stepped ? static_cast<T>(rule.update(static_cast<double>(entry))) : T(0);
            squared_start_ += squared_norm_of(parameter.value);
            squared_update_ += squared_norm_of(parameter.gradient);
        }
    }

    static double squared_norm_of(std::span<const T> entries) {
        double sum = 0.0;
        for (const T entry : entries) sum += static_cast<double>(entry) * static_cast<double>(entry);
        return sum;
    }

    /// theta = (1 - eta weight_decay) theta_0 - eta u
    void step(double eta) {
        const T kept = static_cast<T>(1.0 - eta * weight_decay_), size = static_cast<T>(eta);
        parallel_entries(parameters_, 1.0,
                         [&](const Parameter<T>& parameter, std::size_t first, std::size_t count, std::size_t at) {
                             T* value = parameter.value.data() + first;
                             const T *start = start_.data() + at, *update = parameter.gradient.data() + first;
                             for (std::size_t i = 0; i < count; ++i) value[i] = kept * start[i] - size * update[i];
                         });
    }

    /// The change of the last hidden state between steps of -eta and eta, halved: root mean square over entries.
    double change(double eta) {
        step(eta);
        const Activations<T>& hidden = network_.forward();
        std::copy_n(hidden.data(), hidden.size(), ahead_.data());
        step(-eta);
        network_.forward();
        double squares = 0.0;
        for (std::size_t i = 0; i < ahead_.size(); ++i) {
            const double difference = static_cast<double>(ahead_[i]) - static_cast<double>(hidden.data()[i]);
            squares += difference * difference;
        }
        return std::sqrt(squares / static_cast<double>(ahead_.size())) / 2.0;
    }

    /// 1 - rho of the last hidden state after a step.
    double differences(double eta) {
        step(eta);
        SteppedStream hidden;
        read_stream(network_.forward(), hidden);
        return 1.0 - hidden.token_correlation.value;
    }

    /// The learning rate at which the step is as large as the parameters, both as norms over all of them.
    double burying_step() const { return std::sqrt(squared_start_ / squared_update_); }

    ReferenceNetwork<T> network_;
    ParameterList<T> parameters_;
    std::vector<T> start_;  // theta_0, a row of entries
    std::vector<T> ahead_;  // (B, S, D)
    SteppedNetwork initial_;
    double squared_start_ = 0.0, squared_update_ = 0.0;  // ||theta_0||^2, ||u||^2
    double weight_decay_ = 0.0;
};

}  // namespace normplace::detail
