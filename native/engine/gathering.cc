#include "engine/gathering.h"

#include <utility>

namespace tensorflow_ipu {

using tensorflow::mutex_lock;
using tensorflow::OpKernelContext;
using tensorflow::Status;

Gathering::Gathering(int size, std::unique_ptr<Accumulation> accumulation)
    : size_(size), accumulation_(std::move(accumulation)), parts_(size) {}

Status Gathering::Give(int member, Part part, OpKernelContext* ctx) {
  {
    mutex_lock lock(mu_);
    parts_[member] = std::move(part);
    if (is_adding_) return tensorflow::OkStatus();  // the thread that adds comes to it
    is_adding_ = true;
  }
  return AddInOrder(ctx);
}

Status Gathering::AddInOrder(OpKernelContext* ctx) {
  for (;;) {
    Part part;
    {
      mutex_lock lock(mu_);
      if (added_ == size_) break;
      if (!parts_[added_].has_value()) {
        is_adding_ = false;
        return tensorflow::OkStatus();
      }
      part = *std::move(parts_[added_]);
      parts_[added_].reset();
    }
    const Status status = accumulation_->Add(std::move(part), ctx);
    mutex_lock lock(mu_);
    added_ = status.ok() ? added_ + 1 : size_;
    failed_ = status;
  }
  for (Waiter& waiter : TakeWaiters()) Serve(std::move(waiter));
  mutex_lock lock(mu_);
  return failed_;
}

bool Gathering::Wait(Waiter* waiter) {
  mutex_lock lock(mu_);
  ++came_;
  if (added_ == size_) return false;
  waiters_.push_back(std::move(*waiter));
  return true;
}

void Gathering::Skip() {
  mutex_lock lock(mu_);
  ++came_;
}

bool Gathering::HaveAllCome() {
  mutex_lock lock(mu_);
  return came_ == size_;
}

std::vector<Gathering::Waiter> Gathering::TakeWaiters() {
  mutex_lock lock(mu_);
  return std::exchange(waiters_, {});
}

void Gathering::Serve(Waiter waiter) {
  Status status;
  {
    mutex_lock lock(mu_);
    // The replica whose part could not be added has the cause.
    if (!failed_.ok()) status = tensorflow::StatusGroup::MakeDerived(failed_);
  }
  if (status.ok()) status = accumulation_->Give(waiter.member, waiter.ctx);
  StopWatching(waiter.ctx, waiter.token);
  waiter.ctx->SetStatus(status);
  waiter.done();
}

void StopWatching(OpKernelContext* ctx, tensorflow::CancellationToken token) {
  if (token == tensorflow::CancellationManager::kInvalidToken) return;
  ctx->cancellation_manager()->TryDeregisterCallback(token);
}

}  // namespace tensorflow_ipu
