// SPDX-License-Identifier: BSD-3-Clause
//
// What training takes besides the blocks of normplace.hpp: whole models, optimizers and schedules, text, decoding and
// its score. Checkpoints (io/checkpoint.hpp) need nlohmann-json and are included by themselves.
#pragma once

#include <normplace/io/csv_log.hpp>
#include <normplace/io/progress.hpp>
#include <normplace/nn/cross_entropy.hpp>
#include <normplace/nn/dropout.hpp>
#include <normplace/nn/language_model.hpp>
#include <normplace/nn/parameter_list.hpp>
#include <normplace/nn/transformer.hpp>
#include <normplace/text/batches.hpp>
#include <normplace/text/beam_search.hpp>
#include <normplace/text/bleu.hpp>
#include <normplace/text/language_model_batch.hpp>
#include <normplace/text/number_names_corpus.hpp>
#include <normplace/text/padded_batch.hpp>
#include <normplace/text/parallel_corpus.hpp>
#include <normplace/train/adam.hpp>
#include <normplace/train/radam.hpp>
#include <normplace/train/schedule.hpp>
#include <normplace/train/sgd.hpp>
#include <normplace/train/training_loop.hpp>
