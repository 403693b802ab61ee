// SPDX-License-Identifier: BSD-3-Clause
//
// What an optimizer is: sgd.hpp, adam.hpp (Adam and AdamW), radam.hpp, or a class of your own.
//
// It is made from a parameter list and changes the values in it by the gradients in it. What it remembers between
// steps is the number of steps and its state, and these two, saved and put back, make another optimizer with the same
// options continue bit for bit.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <normplace/nn/parameter_list.hpp>

namespace normplace {

/// - `step(learning_rate)`: one update of every parameter
/// - `steps()`: how many there have been
/// - `resume(steps)`: sets their number, after the state has been put back
/// - `state()`: tensors that point into the optimizer, named `momentum.layers.0.attention.query.weight`, to be read or
///   overwritten; good as long as it is neither moved nor assigned to
template <class O, class T>
concept Optimizer = requires(O& optimizer, const O& constant, double learning_rate, std::uint64_t steps) {
    optimizer.step(learning_rate);
    optimizer.resume(steps);
    { constant.steps() } -> std::same_as<std::uint64_t>;
    { optimizer.state() } -> std::same_as<std::vector<NamedTensor<T>>>;
};

/// Holds any optimizer, so that a program can choose one as it runs:
///
///     AnyOptimizer<float> optimizer = SGD<float>(parameters, {.momentum = 0.9});
///     if (name == "adam") optimizer = Adam<float>(parameters);
template <class T>
class AnyOptimizer {
public:
    template <class O>
    requires(!std::same_as<O, AnyOptimizer> && Optimizer<O, T>) AnyOptimizer(O optimizer)
        : held_(std::make_unique<Held<O>>(std::move(optimizer))) {}

    void step(double learning_rate) { held_->step(learning_rate); }
    void resume(std::uint64_t steps) { held_->resume(steps); }
    std::uint64_t steps() const { return held_->steps(); }
    std::vector<NamedTensor<T>> state() { return held_->state(); }

private:
    struct Interface {
        virtual ~Interface() = default;
        virtual void step(double learning_rate) = 0;
        virtual void resume(std::uint64_t steps) = 0;
        virtual std::uint64_t steps() const = 0;
        virtual std::vector<NamedTensor<T>> state() = 0;
    };
    template <class O>
    struct Held final : Interface {
        explicit Held(O held) : optimizer(std::move(held)) {}
        void step(double learning_rate) override { optimizer.step(learning_rate); }
        void resume(std::uint64_t steps) override { optimizer.resume(steps); }
        std::uint64_t steps() const override { return optimizer.steps(); }
        std::vector<NamedTensor<T>> state() override { return optimizer.state(); }
        O optimizer;
    };

    std::unique_ptr<Interface> held_;
};

}  // namespace normplace
